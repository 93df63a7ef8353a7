"""Columns whose value stands in the path of an object: its landing date or a hive folder. Pure."""

from __future__ import annotations

from datetime import date
from urllib.parse import unquote

from lakehouse.errors import UnreadableObject

LANDING_DATE = "date"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def path_value(source: str, *, uri: str, landing_date: date | None) -> str | None:
    """The text of `from_path: source` for one object, None for hive's NULL.

    `date` is the landing date; anything else the value of the last folder `source=value`, URL-decoded (a `+` stays).
    Raises UnreadableObject if the path does not say it.
    """
    if source == LANDING_DATE:
        if landing_date is None:
            raise UnreadableObject(f"the path names no landing date: uri={uri}")
        return landing_date.isoformat()
    prefix = f"{source}="
    values = [folder.removeprefix(prefix) for folder in uri.split("/")[:-1] if folder.startswith(prefix)]
    if not values:
        raise UnreadableObject(f"the path has no folder {prefix}: uri={uri}")
    if values[-1] == HIVE_NULL:
        return None
    try:
        value = unquote(values[-1], errors="strict")
    except UnicodeDecodeError:
        raise UnreadableObject(f"the folder is not valid UTF-8 once decoded: uri={uri} folder={source}") from None
    if "\0" in value:
        raise UnreadableObject(f"the folder holds a NUL once decoded: uri={uri} folder={source}")
    return value
