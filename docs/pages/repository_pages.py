"""Pages of the site that are files of the repository outside docs/, such as README.md."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

PAGES = {  # path in the repository: page of the site
    "README.md": "docs/index.md",
    "CONTRIBUTING.md": "docs/contributing/index.md",
    "studies/README.md": "docs/contributing/studies.md",
    "benchmarks/README.md": "docs/contributing/benchmarks.md",
    "CHANGELOG.md": "docs/contributing/changelog.md",
}
SECTIONS = "get-started", "user-guide", "gallery", "paper", "reference", "contributing"
CONTENTS = {  # the pages below a page
    "README.md": [f"{name}/index" for name in SECTIONS],
    "CONTRIBUTING.md": ["studies", "benchmarks", "changelog"],
}
LINK = re.compile(r'(\]\(|(?:src|href)=")([^)"\s]+)')


def relink(text: str, source: str, target: str) -> str:
    """Return the text of a file with its relative links changed for a page in another place.

    Links to a file of ``PAGES`` become links to its page.
    """

    def change(match: re.Match) -> str:
        path, separator, anchor = match[2].partition("#")
        if not path or re.match(r"\w+:", path):
            return match[0]
        linked = os.path.normpath(PurePosixPath(source).parent / path)
        linked = PAGES.get(linked, linked)
        return f"{match[1]}{os.path.relpath(linked, PurePosixPath(target).parent)}{separator}{anchor}"

    return LINK.sub(change, text)


def link_experiments(text: str) -> str:
    """Return a text whose links to the rows of an experiment lead to its page, which only the site has."""
    return re.sub(r"\]\(\.\./results/(\w+)_metrics\.csv\.gz\)", r"](../experiments/\1.md)", text)


def index_terms(text: str) -> str:
    """Return a glossary with an index entry for each term of its table, so that the site's search lists it first."""
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)[1:]
    names = [re.sub(r"[(`)]", "", name) for cell in cells for name in re.split(r", | \(", cell)]
    terms = dict.fromkeys(re.sub(r"(?<=\w{3}) \S{1,2}$", "", name) for name in names)  # without a symbol at the end
    return "".join(f"```{{index}} single: {term}\n```\n\n" for term in terms) + text


def repository_documents(root: Path) -> dict[Path, str]:
    """Return the pages that show files of the repository by path."""
    documents = {}
    for source, page in PAGES.items():
        text = relink((root / source).read_text(encoding="utf-8"), source, page)
        if contents := CONTENTS.get(source):
            text += "\n```{toctree}\n:hidden:\n\n" + "\n".join(contents) + "\n```\n"
        documents[root / page] = text
    return documents
