"""Sphinx: the site from the Markdown pages here, and from the code (`_ext/generated.py`)."""

import sys
from pathlib import Path

import rtclab

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "rtclab"
author = "the authors of rtclab"
release = version = rtclab.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "gallery", "generated"]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Docstrings name code in single backticks as well as in double ones.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_display_short_literal_types = True
napoleon_google_docstring = True

smartquotes = False
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"rtclab {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
