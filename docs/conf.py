"""Sphinx configuration, with the directives that keep the pages in step with the package."""

from __future__ import annotations

import doctest
import importlib.metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fdcheck import Status

project = "fdcheck"
author = "the fdcheck developers"
version = release = importlib.metadata.version("fdcheck")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.doctest", "sphinx.ext.mathjax", "numpydoc"]
exclude_patterns = ["_build"]
root_doc = "index"
default_role = "literal"
nitpicky = False

autodoc_typehints = "none"  # numpydoc prints the types that the docstrings name
numpydoc_show_class_members = False  # the members are on the page once, where autoclass puts them
numpydoc_xref_param_type = False

doctest_default_flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
doctest_test_doctest_blocks = "default"
doctest_global_setup = f"DOCS = {str(Path(__file__).parent)!r}"

html_theme = "pydata_sphinx_theme"
html_title = f"fdcheck {version}"
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"**": []}  # the bar at the top holds the chapters
html_theme_options = {"show_prev_next": True, "secondary_sidebar_items": ["page-toc"]}


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
