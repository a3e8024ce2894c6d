"""Parts of the page on a log that are HTML: tables that stack on a phone, sections, tiles, the whole file."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from drcrm.reports.log_report.formatting import DASH

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # nothing is loaded, no script runs


class Column(NamedTuple):
    """A column of a table: its title, and whether it holds names, numbers, pictures or sentences."""

    title: str
    kind: str = "number"


def table(columns: Sequence[Column], lines: Sequence[Sequence[str]], foot: str = "", kind: str = "stack") -> str:
    """A table of cells that are HTML already, without empty columns; ``foot`` stands under the column of pictures."""
    used = [place for place, _ in enumerate(columns) if any(cells[place] not in ("", DASH) for cells in lines)]
    columns, lines = [columns[place] for place in used], [[cells[place] for place in used] for cells in lines]
    heads = "".join(f'<th scope="col" class="{each.kind}">{escape(each.title)}</th>' for each in columns)
    body = "".join(f"<tr>{''.join(map(cell, columns, cells))}</tr>\n" for cells in lines)
    feet = "".join(f'<td class="{each.kind}">{foot if each.kind == "picture" else ""}</td>' for each in columns)
    last = f"<tfoot><tr>{feet}</tr></tfoot>" if foot else ""
    inner = f"<table><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>{last}</table>"
    return f'<div class="{kind}" tabindex="0">{inner}</div>\n'


def cell(column: Column, inner: str) -> str:
    """A cell, which knows its column's title for where there is no header."""
    kind = f"{column.kind} none" if inner == DASH else column.kind
    return f'<td class="{kind}" data-title="{escape(column.title)}">{inner}</td>'


def section(title: str, lead: str, *parts: str) -> str:
    """A part of the page under its title; nothing where it has no content."""
    if not any(parts):
        return ""
    said = f'<p class="lead">{lead}</p>\n' if lead else ""
    return f"<section>\n<h2>{escape(title)}</h2>\n{said}{''.join(parts)}</section>\n"


def tile(title: str, large: str, small: str, look: str = "") -> str:
    """A number that matters, with what it is and how sure it is."""
    return (
        f'<div class="tile {look}"><div class="what">{title}</div><div class="large">{large}</div>'
        f'<div class="small">{small}</div></div>\n'
    )


def key(*looks: tuple[str, str]) -> str:
    """What colours and marks mean, as a line of text."""
    return '<p class="key">' + "".join(f'<span class="{look}">{said}</span>' for look, said in looks) + "</p>\n"


def listed(items: Sequence[tuple[str, str]]) -> str:
    """Terms and what they are, the latter as HTML."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{said}</dd>\n" for term, said in items if said) + "</dl>\n"


def details(title: str, inner: str) -> str:
    """What is shown on request."""
    return f"<details><summary>{escape(title)}</summary>\n{inner}</details>\n" if inner else ""


def document(title: str, body: str) -> str:
    """The whole file, which loads nothing."""
    style = files("drcrm.reports.log_report").joinpath("log_page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
