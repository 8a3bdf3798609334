"""Settings of the site. `docs/make_site.py` copies this file beside the staged pages; nothing here needs the internet."""

import bqrl

project = "bqrl"
author = "bqrl developers"
copyright = "bqrl developers"
release = bqrl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_heading_anchors = 4  # links such as planning.md#other-objectives, as on a forge
exclude_patterns = ["files"]
templates_path = ["templates"]

autosummary_generate = True
autosummary_filename_map = {  # Tradeoff and tradeoff: some file systems do not tell names in upper and lower case apart
    f"bqrl.{name}": f"bqrl.{name}-class" for name in bqrl.__all__ if name != name.lower() in bqrl.__all__
}
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_use_param = False  # types are text: a shape (S, A) is no reference to attributes of that name
default_role = "literal"
suppress_warnings = ["ref.python"]  # words of a type are text, not names of attributes

html_theme = "pydata_sphinx_theme"
html_title = f"bqrl {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
