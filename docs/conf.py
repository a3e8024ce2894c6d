"""Sphinx configuration of the documentation. `make site` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import build
from pages.repository_pages import index_terms, link_experiments, relink
from sphinx.application import Sphinx
from sphinx_gallery.sorting import ExplicitOrder

import drcrm

project = "drcrm"
author = "the drcrm developers"
release = version = drcrm.__version__
copyright = author

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "templates", "requirements.txt"]
suppress_warnings = ["misc.highlighting_failure"]  # blocks of csv and Snakemake, which Pygments does not know
templates_path = ["templates"]
default_role = "literal"
smartquotes = False
nitpicky = True
nitpick_ignore_regex = [("py:.*", r".*")]

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4

autosummary_generate = ["reference/api.rst"]
autodoc_typehints = "none"
numpydoc_show_class_members = False

EXAMPLES = "first_policy", "reading_a_verdict", "certificate", "serving", "dsjson", "action_lists"
EXAMPLES += "listed_table", "feature_map", "grid_search", "own_risk", "own_weight", "own_competitor"
EXAMPLES += ("weekly_loop", "router", "figure_1")
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": ExplicitOrder([f"{name}.py" for name in EXAMPLES]),
    "ignore_pattern": "web_handler",  # user-guide/serving.md shows it
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10,
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"drcrm {version}"
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True


def setup(app: Sphinx) -> None:
    """Write the generated pages before Sphinx reads the sources."""
    app.connect("builder-inited", lambda _: build.write_pages(), priority=100)
    app.connect("source-read", relink_source)
    app.connect("autodoc-skip-member", skip_metadata_requests)


def skip_metadata_requests(app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object) -> bool:
    """Leave out the methods that scikit-learn generates for metadata routing."""
    return skip or name.endswith("_request") or name == "get_metadata_routing"


def relink_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to README.md, similar files and rows lead to their pages, and index the glossary's terms."""
    if not page.startswith("experiments/"):
        source[0] = link_experiments(source[0])
    source[0] = relink(source[0], f"docs/{page}.md", f"docs/{page}.md")
    if page == "reference/glossary":
        source[0] = index_terms(source[0])
