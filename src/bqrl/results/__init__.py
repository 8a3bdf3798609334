"""Results of plans, learning runs and experiments: tables, charts, sentences, a folder and a page."""
