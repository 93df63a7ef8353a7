"""Tables and lists for Dagster's pages, which render Markdown. Names of objects come from others: what would be a link,
an image or a line end of theirs is shown as it is written. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lakehouse.readable import readable

_MARKS = re.compile(r"[\\`*\[\]<>|~]")


class Code(str):
    """A cell that is shown as code, so that it can be copied."""


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table; numbers stand to the right."""
    rule = ["--:" if lines and isinstance(cell, int) else "---" for cell in (lines[0] if lines else head)]
    rows = [map(_cell, head), rule, *(map(_cell, line) for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def markdown_list(items: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(item)}" for item in items)


def _cell(value: object) -> str:
    if isinstance(value, Code):
        return _code(value)
    return _plain(str(value))


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\g<0>", readable(text))


def _code(text: str) -> str:
    """Inside a fence that is longer than any in the text; a table ends a cell at every bar, also there."""
    if not text:
        return ""
    shown = readable(text).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    edge = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{edge}{shown}{edge}{fence}"
