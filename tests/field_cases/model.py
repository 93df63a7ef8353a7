"""What a field case is: files, how they are declared, and what must come of each; and the shapes that cases have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tests.field_cases.files import ALL, FIRST_LINE, OPTIONS, Record, Types, render

PLACES = ("first", "middle", "last")
SIZES = (3, 2500)
"""Records of a file: few, and more than the engine takes at a time."""


@dataclass(frozen=True)
class Rejected:
    """A reject at a line, 1-based, with these words in its reason."""

    line: int
    reason: str


@dataclass(frozen=True)
class File:
    """Bytes of an object and what must come of it: its rows, by line, and its rejects; or words of the refusal."""

    data: bytes
    rows: tuple[tuple[Any, ...], ...] = ()
    rejects: tuple[Rejected, ...] = ()
    refused: str | None = None
    folder: str = ""


@dataclass(frozen=True)
class Run:
    """Files that are staged in this order under one declaration.

    `survivors`: the rows that the batch merges, if it has duplicates. `zone`: the time zone of the host.
    """

    label: str
    format: dict[str, Any]
    columns: dict[str, Any]
    files: tuple[File, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    survivors: tuple[tuple[Any, ...], ...] | None = None
    zone: str | None = None

    def backwards(self) -> Run:
        return replace(self, label=f"{self.label}, files backwards", files=self.files[::-1])


@dataclass(frozen=True)
class Part:
    """Some runs of a case: what they are about, if not the whole of it, their formats, and over what else they go."""

    name: str
    formats: tuple[str, ...]
    over: str
    runs: Callable[[], Iterator[Run]]


@dataclass(frozen=True)
class Case:
    """`elsewhere`: what people met; `rule`: what happens here. `tests` are those that show it beyond the parts."""

    id: str
    elsewhere: str
    rule: str
    parts: tuple[Part, ...] = ()
    tests: tuple[str, ...] = ()

    def runs(self) -> Iterator[Run]:
        for part in self.parts:
            for run in part.runs():
                yield replace(run, label=", ".join(filter(None, (self.id, part.name, run.label))))


@dataclass(frozen=True)
class Odd:
    """One odd record among good ones, which are `(number, good)`; `odd` has the number 0 unless it is bytes.

    It is a reject with the words of `reason`, or it is read as `read`; the others stay what they are.
    """

    kind: str
    good: Any
    odd: Record
    formats: tuple[str, ...]
    value: Any = None
    read: tuple[Any, ...] | None = None
    reason: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    types: Types = field(default_factory=dict)
    sizes: tuple[int, ...] = SIZES

    def part(self, name: str = "") -> Part:
        return Part(name, self.formats, "places", self._runs)

    def _runs(self) -> Iterator[Run]:
        for format in self.formats:
            for size in self.sizes:
                for place, at in zip(PLACES, (0, size // 2, size - 1), strict=True):
                    yield self._run(format, size, place, at)

    def _run(self, format: str, size: int, place: str, at: int) -> Run:
        records: list[Record] = [(number, self.good) for number in range(1, size)]
        records.insert(at, self.odd)
        value = self.good if self.value is None else self.value
        rows: list[tuple[Any, ...]] = [(number, value) for number in range(1, size)]
        rejects = []
        if self.read is not None:
            rows.insert(at, self.read)
        else:
            rejects.append(Rejected(FIRST_LINE[format] + at, self.reason))
        data = render(format, ("id", "v"), records, {"id": pa.int64(), **self.types})
        return Run(
            f"{format}, {place} of {size}",
            {"type": format, **OPTIONS.get(format, {}), **self.options},
            {"id": "bigint", "v": self.kind},
            (File(data, tuple(rows), tuple(rejects)),),
            dict(self.changes),
        )


@dataclass(frozen=True)
class Sheet:
    """Records of one file and what must come of them; what differs by format is given by `rows_of` and `refused_in`."""

    names: tuple[str, ...]
    records: tuple[Record, ...]
    rows: tuple[tuple[Any, ...], ...] = ()
    refused: str | None = None
    refused_in: Mapping[str, str] = field(default_factory=dict)
    rejects_in: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    types: Types = field(default_factory=dict)
    folder: str = ""

    def file(self, format: str) -> File:
        data = render(format, self.names, self.records, self.types)
        if refused := self.refused or self.refused_in.get(format):
            return File(data, refused=refused, folder=self.folder)
        rejects = [Rejected(FIRST_LINE[format] + at, reason) for at, reason in self.rejects_in.get(format, ())]
        lost = {at for at, _ in self.rejects_in.get(format, ())}
        rows = tuple(row for at, row in enumerate(self.rows) if at not in lost)
        return File(data, rows, tuple(rejects), folder=self.folder)


@dataclass(frozen=True)
class Sheets:
    """The same files in every format, in both orders."""

    columns: dict[str, Any]
    sheets: tuple[Sheet, ...]
    formats: tuple[str, ...] = ALL
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    survivors: tuple[tuple[Any, ...], ...] | None = None
    zone: str | None = None

    def part(self, name: str = "") -> Part:
        over = "orders" if len(self.sheets) > 1 else ""
        return Part(name, self.formats, over, self._runs)

    def _runs(self) -> Iterator[Run]:
        for format in self.formats:
            run = Run(
                format,
                {"type": format, **OPTIONS.get(format, {}), **self.options},
                self.columns,
                tuple(sheet.file(format) for sheet in self.sheets),
                dict(self.changes),
                self.survivors,
                self.zone,
            )
            yield run
            if len(self.sheets) > 1:
                yield run.backwards()


@dataclass(frozen=True)
class Bytes:
    """Files given byte by byte, by format and what is odd about them."""

    columns: dict[str, Any]
    files: Mapping[tuple[str, str], File]
    options: Mapping[str, Any] = field(default_factory=dict)

    def part(self, name: str = "") -> Part:
        formats = tuple(dict.fromkeys(format for format, _ in self.files))
        return Part(name, formats, ", ".join(dict.fromkeys(what for _, what in self.files)), self._runs)

    def _runs(self) -> Iterator[Run]:
        for (format, what), file in self.files.items():
            yield Run(
                f"{format}, {what}", {"type": format, **OPTIONS.get(format, {}), **self.options}, self.columns, (file,)
            )
