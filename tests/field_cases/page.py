"""The page of the field cases, from their table: `python -m tests.field_cases.page` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.field_cases.files import ALL
from tests.field_cases.model import Case
from tests.field_cases.table import CASES

PAGE = "docs/field-cases.md"
_HEAD = """# Field cases

What goes wrong for people who load files into tables, and what happens here. Cases of discovery and of the bookmark
(D) are tested on a real S3, or a scripted one where no real one would do it, and a real catalog. Those of reading (R)
and staging (V) are tested with files that show them, in the named formats. *Places*: the odd record is the first, a
middle or the last one of a short and of a long file. *Orders*: the files come in both orders. CSV files are staged
alone and together with others. Commits (M) and upkeep (X) are tested on real catalogs, commits under the faults of the
[kill matrix](kill-matrix.md). This page is written by the table of those tests.

| case | elsewhere | here | tested with |
|---|---|---|---|
"""


def page() -> str:
    return _HEAD + "".join(map(_row, CASES))


def _row(case: Case) -> str:
    tests = [f"`{name.partition('::')[2]}`" for name in case.tests]
    return f"| {case.id} | {case.elsewhere} | {case.rule} | {'; '.join([*_parts(case), *tests])} |\n"


def _parts(case: Case) -> Iterator[str]:
    """What the parts are about, their formats and files; parts that differ in one of them alone stand together."""
    formats: dict[tuple[str, str], list[str]] = {}
    for part in case.parts:
        formats.setdefault((part.name, part.over), []).extend(part.formats)
    names: dict[tuple[str, str], list[str]] = {}
    for (name, over), found in formats.items():
        shown = "every format" if set(found) == set(ALL) else ", ".join(found)
        names.setdefault((shown, over), []).append(name or "plainly")
    for (shown, over), named in names.items():
        about = "" if named == ["plainly"] else f"{', '.join(named)}: "
        yield f"{about}{shown}{f' ({over})' if over else ''}"


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page())
