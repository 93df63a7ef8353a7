"""Rules about the sources of one table together. Pure.

They look at the raw mapping, as `rules` does, and pass over values that the model refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from lakehouse.declaration.fields import show
from lakehouse.declaration.problem import Finding, Loc

_WHOLE_DATES = {
    "snapshot": "the newest landing date of a source would delete the rows of the others",
    "replace_partition": "each source would replace the others' rows of a landing date",
}


def placed_sources(attributes: Mapping[str, Any]) -> list[tuple[Loc, Mapping[str, Any]]]:
    """Every source with its place in the file; one without a field, at `source`, if the file names none."""
    sources = attributes.get("sources")
    if isinstance(sources, list):
        return [(("sources", i), source) for i, source in enumerate(sources) if isinstance(source, dict)] or [
            (("source",), {})
        ]
    source = attributes.get("source")
    return [(("source",), source if isinstance(source, dict) else {})]


def broken_source_rules(attributes: Mapping[str, Any]) -> Iterator[Finding]:
    """Every rule that the sources of `attributes`, straight from the file, break together."""
    one, several = attributes.get("source"), attributes.get("sources")
    if one is not None and several is not None:
        yield Finding(("sources",), "the file has source and sources; keep one of them", at_key=True)
    if one is None and several is None:
        yield Finding(("source",), "missing; expected source: {uri: s3://bucket/folder/, format: {type: csv}}")
    placed = placed_sources(attributes) if isinstance(several, list) else []
    if len(placed) < 2:
        return
    yield from _modes(attributes.get("write"), placed)
    seen: dict[str, Loc] = {}
    for place, source in placed:
        bookmark = source.get("bookmark")
        if isinstance(bookmark, str) and bookmark in seen:
            message = f"{show(bookmark)} is the bookmark of sources[{seen[bookmark][1]}] already; choose another name"
            yield Finding((*place, "bookmark"), message)
        elif isinstance(bookmark, str):
            seen[bookmark] = place
        if (source.get("partition") is None) != (placed[0][1].get("partition") is None):
            message = "sources of one table all have landing dates or none has; declare partition for each of them"
            yield Finding(place, message)


def _modes(mode: object, placed: Sequence[tuple[Loc, Mapping[str, Any]]]) -> Iterator[Finding]:
    """A mode that takes out rows by what a source does not hold cannot tell which rows are another source's."""
    if isinstance(mode, str) and mode in _WHOLE_DATES:
        message = f"{mode} takes one source, for {_WHOLE_DATES[mode]}; expected upsert or append, or one source"
        yield Finding(("write",), message)
    if mode != "append":
        return
    for (_, first), (place, second) in combinations(placed, 2):
        here, there = (str(source.get("uri", "")).rstrip("/") + "/" for source in (first, second))
        if here.startswith(there) or there.startswith(here):
            message = (
                "append removes the rows of an object that is read again, so no other source may read it too: this "
                f"folder and {show(first.get('uri'))} hold the same objects; choose folders apart"
            )
            yield Finding((*place, "uri"), message)
