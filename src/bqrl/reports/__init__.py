"""Numbers in; tables, figures and pages out. Nothing here plans, learns or evaluates."""
