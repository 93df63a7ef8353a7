"""A plain model of a landing prefix and of what a context has seen of it, to hold plan and bookmark against.

It keeps dicts of text and numbers and repeats the rules in the simplest words; it uses no code of plan or bookmark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

START_DATE = date(2026, 8, 30)

# Every key of the model with the landing date of a data file, or the reason why it is none.
DATA_KEYS = {
    "day=2026-08-29/early.csv": date(2026, 8, 29),
    "day=2026-08-30/a.csv": date(2026, 8, 30),
    "day=2026-08-30/b c+%20.csv": date(2026, 8, 30),
    "day=2026-08-31/a.csv": date(2026, 8, 31),
    "day=2026-08-31/ü.csv": date(2026, 8, 31),
    "day=2026-09-01/a.csv": date(2026, 9, 1),
}
IGNORED_KEYS = {
    "day=2026-08-30/": "marker",
    "day=2026-08-30_$folder$": "marker",
    "day=2026-08-30/_a.csv": "hidden",
    "day=2026-08-30/a.txt": "glob",
    "day=2026-02-30/a.csv": "date",
    "nodate.csv": "date",
}
KEYS = sorted([*DATA_KEYS, *IGNORED_KEYS])


@dataclass(frozen=True)
class Stored:
    """One object in the prefix; `modified` in seconds, before `put_at` for a slow upload."""

    etag: str
    size: int
    modified: int


@dataclass(frozen=True)
class Seen:
    """The latest version of a key that was read, by a declaration; `bad` if it could not be read."""

    etag: str
    bad: bool
    declaration: str
    version: int


@dataclass(frozen=True)
class Ask:
    """What a load asks for."""

    mode: str
    first: date | None
    last: date | None
    settle: int
    max_files: int | None
    max_bytes: int | None
    declaration: str


@dataclass
class PrefixModel:
    """The prefix, the clock in seconds, and what was seen; `reads` lists every version read, in order."""

    clock: int = 0
    version: int = 0
    stored: dict[str, Stored] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    reads: list[tuple[str, str, int]] = field(default_factory=list)

    def classes(self, ask: Ask) -> dict[str, str]:
        """The class of every stored key."""
        return {key: self._class(key, ask) for key in self.stored}

    def _class(self, key: str, ask: Ask) -> str:
        obj, seen = self.stored[key], self.seen.get(key)
        if key in IGNORED_KEYS or obj.size == 0:
            return "ignored"
        day = DATA_KEYS[key]
        if day < START_DATE or (ask.first and day < ask.first) or (ask.last and day > ask.last):
            return "outside_window"
        if seen and seen.etag == obj.etag and ask.mode != "full":
            if not seen.bad:
                return "consumed"
            if seen.declaration == ask.declaration:
                return "quarantined"
        if ask.settle and self.clock < obj.modified + ask.settle:
            return "deferred"
        return "planned"

    def batches(self, ask: Ask) -> list[list[str]]:
        """The planned keys, oldest first, cut by the bounds."""
        planned = [key for key, name in self.classes(ask).items() if name == "planned"]
        batches: list[list[str]] = []
        for key in sorted(planned, key=lambda key: (self.stored[key].modified, key)):
            size = sum(self.stored[other].size for other in batches[-1]) if batches else 0
            fits = bool(batches)
            fits = fits and (ask.max_files is None or len(batches[-1]) < ask.max_files)
            fits = fits and (ask.max_bytes is None or size + self.stored[key].size <= ask.max_bytes)
            batches[-1].append(key) if fits else batches.append([key])
        return batches

    def commit(self, batch: list[str], bad: set[str], ask: Ask) -> None:
        """One batch is published; `bad` keys are quarantined. In no-advance mode only the version moves."""
        self.version += 1
        for key in batch:
            etag = self.stored[key].etag
            self.reads.append((key, etag, self.version))
            if ask.mode != "no-advance":
                self.seen[key] = Seen(etag, key in bad, ask.declaration, self.version)
