"""What a listed object is by its key and size alone: data file, control file, folder marker, hidden or foreign.

Owns the order of these questions, the marker names and the control-file names; what waits for them is in
`lakehouse.ready`. Never looks at the bookmark, the clock or the content.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from lakehouse.declaration.file_glob import match_glob
from lakehouse.model import LandingObject

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration, Source


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an object belongs. `ignored` says why it is no data file, and is empty for one that is."""

    landing_date: date | None
    ignored: str = ""


EMPTY = "empty: 0 bytes"
_MARKERS = ("/", "_$folder$")
_NO_CONTROLS: frozenset[str] = frozenset()


class Places:
    """Where the objects of one source belong: the landing date, and the first reason that holds if one is never read.

    Each is placed once, be it while the listing waits for its next page.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._marker = "/" + source.ready.marker if source.ready and source.ready.marker else ""
        self._known: dict[str, tuple[LandingObject, Placement]] = {}

    def note(self, obj: LandingObject) -> tuple[LandingObject, Placement]:
        """Place an object before it is known which objects are control files."""
        placed = self._known[obj.uri] = obj, self._place(obj, _NO_CONTROLS)
        return placed

    def of(self, obj: LandingObject, controls: frozenset[str]) -> tuple[LandingObject, Placement]:
        """The object and its place; `controls` is what `control_uris` says of the whole listing."""
        if obj.uri in controls:
            return obj, self._place(obj, controls)
        known = self._known.get(obj.uri)
        return known if known is not None and known[0] is obj else self.note(obj)

    def _place(self, obj: LandingObject, controls: frozenset[str]) -> Placement:
        uri = obj.uri
        if not uri.startswith(self._source.uri):
            return Placement(None, f"outside the source {self._source.uri}")
        day, rest = _locate(uri, source=self._source)
        return _placement(day, self._ignored(obj, day, rest, controls))

    def _ignored(self, obj: LandingObject, day: date | None, rest: str, controls: frozenset[str]) -> str:
        uri, source = obj.uri, self._source
        if uri.endswith(_MARKERS):
            return "folder marker"
        if self._marker and uri.endswith(self._marker):
            return "ready marker"
        if uri in controls:
            return "control file"
        if hidden := _hidden(rest):
            return f"hidden: {hidden} begins with {hidden[0]}"
        if not _matches(day, rest, source=source):
            return f"does not match files={source.files}"
        if obj.size == 0:
            return EMPTY
        if day is None and source.landing:
            return f"no landing date in the path: partition={source.partition}"
        return ""


@lru_cache(maxsize=4096)
def _placement(day: date | None, ignored: str) -> Placement:
    """One value for all objects that have the same place."""
    return Placement(day, ignored)


def landing_date(uri: str, *, source: Source) -> date | None:
    """The day that the key below the source names; None for an undated source too."""
    return _locate(uri, source=source)[0]


def is_marker(uri: str) -> bool:
    """Whether the key only stands for a folder, as consoles and Hadoop write them (D13)."""
    return uri.endswith(_MARKERS)


def control_uri(uri: str, template: str) -> str:
    """The control file beside an object: `{stem}` is its file name without the last extension, `{name}` all of it."""
    folder, _, name = uri.rpartition("/")
    stem = name.rpartition(".")[0] or name
    parts = re.split(r"(\{stem\}|\{name\})", template)
    return f"{folder}/" + "".join({"{stem}": stem, "{name}": name}.get(part, part) for part in parts)


def control_templates(declaration: Declaration) -> frozenset[str]:
    """What control files are called, for the gate that reads them and for objects that wait for them."""
    ready = declaration.source.ready
    return frozenset(filter(None, (declaration.gates.control_file, ready.control if ready else None)))


def control_uris(listing: Iterable[LandingObject], *, source: Source, templates: Collection[str]) -> frozenset[str]:
    """Where the control files of the listed data files are, whether these are listed or not.

    Only what the declared glob matches has a control file: beside a foreign `a.txt`, a declared `a.csv` stays data.
    """
    if not templates:
        return frozenset()
    data = (obj.uri for obj in listing if not is_marker(obj.uri))
    owners = [uri for uri in data if _matches(*_locate(uri, source=source), source=source)]
    return frozenset(
        control for template in templates for uri in owners if (control := control_uri(uri, template)) != uri
    )


def _hidden(rest: str) -> str | None:
    """The first folder or file name that Hadoop and Spark keep for themselves: `_temporary`, `._SUCCESS.crc`.

    The folders of the landing date are declared, and `_p=1` is a partition.
    """
    if not rest.startswith(("_", ".")) and "/_" not in rest and "/." not in rest:
        return None
    return next((part for part in rest.split("/") if part.startswith(("_", ".")) and "=" not in part), None)


def _locate(uri: str, *, source: Source) -> tuple[date | None, str]:
    """The landing date and the rest of the key, which follows the folders that name the date."""
    relative, landing = uri.removeprefix(source.uri), source.landing
    return landing.locate(relative) if landing else (None, relative)


def _matches(day: date | None, rest: str, *, source: Source) -> bool:
    if day is not None or source.landing is None:
        return match_glob(source.files, rest)
    # Which folders would have named the date is unknown: the missing date is the reason wherever it can be.
    segments = rest.split("/")
    return any(match_glob(source.files, "/".join(segments[start:])) for start in range(len(segments)))
