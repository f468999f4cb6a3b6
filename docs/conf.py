"""Sphinx configuration, with the directives that keep the pages in step with the package."""

from __future__ import annotations

import doctest
import importlib.metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx_gallery.sorting import FunctionSortKey

from fdcheck import Status

GALLERY = [
    f"plot_{name}.py"
    for name in (
        "step_and_error", "error_map", "kinks", "noisy_solver", "float32", "large_gradient", "sparse", "complex",
        "recommend_eps", "error_bars", "checkers",
    )
]  # fmt: skip
"""The examples, in the order of their pictures."""

project = "fdcheck"
author = "the fdcheck developers"
version = release = importlib.metadata.version("fdcheck")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "matplotlib.sphinxext.plot_directive",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
]
exclude_patterns = ["_build", "gallery", "figures"]
root_doc = "index"
default_role = "literal"
nitpicky = True

autodoc_typehints = "none"  # numpydoc prints the types that the docstrings name
numpydoc_show_class_members = False  # the members are on the page once, where autoclass puts them
numpydoc_xref_param_type = False

doctest_default_flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
doctest_test_doctest_blocks = "default"
doctest_global_setup = f"DOCS = {str(Path(__file__).parent)!r}"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "backreferences_dir": "generated/backreferences",
    "within_subsection_order": FunctionSortKey(GALLERY.index),
    "reference_url": {"fdcheck": None},  # names in the code link to their place in the reference
    "doc_module": ("fdcheck",),
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 3600,  # times are of the machine that built the site
    "write_computation_times": False,
}

plot_html_show_formats = plot_html_show_source_link = False
plot_formats = [("png", 150)]  # an SVG would hold the date of its making
plot_rcparams = {"figure.constrained_layout.use": True}
plot_apply_rcparams = True

html_theme = "pydata_sphinx_theme"
html_title = f"fdcheck {version}"
html_copy_source = False
html_show_sourcelink = False
html_css_files = ["fdcheck.css"]
html_static_path = ["static"]
html_sidebars = {page: [] for page in ("index", "getting_started", "tutorial")}  # chapters without pages below them
html_theme_options = {
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": True,
}


class StatusSection(SphinxDirective):
    """What one status means and what to do, in the words of the package."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        status = Status(self.arguments[0])
        return self.parse_text_to_nodes(f"{status.meaning}\n\n*What to do:* {status.advice or 'Nothing.'}")


class ShellSession(SphinxDirective):
    """A session at a shell prompt, tested as a doctest that calls ``shell`` with each line after a ``$``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        tested = [f">>> shell({line[2:]!r})" if line.startswith("$ ") else line for line in self.content]
        node = nodes.literal_block(text, text, language="console", testnodetype="doctest", groups=["default"])
        node["test"], node["options"] = "\n".join(tested), {}
        self.set_source_info(node)
        return [node]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("status-section", StatusSection)
    app.add_directive("shell-session", ShellSession)
    return {"parallel_read_safe": True}
