"""What a column of a table cannot be called, wherever its name comes from. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakehouse.naming import DELETED_AT, IS_DELETE, LINEAGE, RESCUED

NAME = r"[^\x00-\x1f\x7f]+"
"""A declared name; what it must not be besides is what `name_faults` tells."""

LONGEST = 255
"""Characters of a name that a file brings: more is a line of data where names should be."""


def name_faults(name: str) -> Iterator[str]:
    """What is wrong with a name that a column is to have, each with what to do."""
    if name.lower() in LINEAGE:
        yield "the name belongs to a lineage column; choose another name"
    if name.lower() in (DELETED_AT, IS_DELETE):
        yield "the name belongs to the marks of deletes; choose another name"
    if name.lower() == RESCUED:
        yield "the name belongs to the rescued columns; choose another name"
    if name.lower() == "rowid" or name.startswith("__"):
        yield "the engine has such names for itself; choose another one, with `from`"
    if "." in name:
        yield "a column name has no dot; rename it, with `from` for its name in the file"


def fault_of_brought_name(name: str) -> str:
    """Why a name in a file cannot be the name of a column, with what to do; empty if it can. Blanks around it do not
    make it another name."""
    if not name.strip():
        return "the name is empty"
    if len(name) > LONGEST:
        return f"the name has {len(name)} characters; a column's has {LONGEST} at most"
    if not re.fullmatch(NAME, name):
        return "the name has control characters"
    return next(name_faults(name.strip()), "")
