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
    "day=2026-08-30/done.csv": date(2026, 8, 30),
    "day=2026-08-31/done.csv": date(2026, 8, 31),
    "day=2026-09-01/a.csv": date(2026, 9, 1),
}
IGNORED_KEYS = {
    "day=2026-08-30/": "marker",
    "day=2026-08-30_$folder$": "marker",
    "day=2026-08-30/_a.csv": "hidden",
    "day=2026-08-30/a.txt": "glob",
    "day=2026-08-30/a.count": "glob",
    "day=2026-08-31/a.count": "glob",
    "day=2026-02-30/a.csv": "date",
    "nodate.csv": "date",
}
KEYS = sorted([*DATA_KEYS, *IGNORED_KEYS])
OUT = ("ignored", "outside_window")

# What an object or a date waits for; `done.csv` is data where it is not declared as a marker.
READY = {"objects": 2, "marker": "done.csv", "control": "{stem}.count"}


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
    declaration: tuple[str, str]
    version: int


@dataclass(frozen=True)
class Ask:
    """What a load asks for. `ready` is empty, or one of READY."""

    mode: str
    first: date | None
    last: date | None
    settle: int
    max_files: int | None
    max_bytes: int | None
    delimiter: str
    write: str
    ready: str = ""

    @property
    def declaration(self) -> tuple[str, str]:
        return (self.delimiter, self.write)


@dataclass
class PrefixModel:
    """The prefix, the clock in seconds, and what was seen; `reads` lists every version read, in order.

    `passing` are readings of loads that did not advance, until one that does has read the key. `rulings` hold the
    version that an operator has decided about, and "skipped" or "planned".
    """

    clock: int = 0
    version: int = 0
    stored: dict[str, Stored] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    passing: dict[str, Seen] = field(default_factory=dict)
    rulings: dict[str, tuple[str, str]] = field(default_factory=dict)
    reads: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def last(self) -> dict[str, Seen]:
        """The last reading of every key."""
        return {**self.seen, **self.passing}

    def classes(self, ask: Ask) -> dict[str, str]:
        """The class of every stored key."""
        classes = {key: self._class(key, ask) for key in self.stored}
        for day in set(DATA_KEYS.values()):
            if ask.write == "replace_partition":
                self._replace_whole(day, classes)
        newest = self.newest(ask)
        if ask.write == "snapshot" and newest:
            self._read_whole(newest, classes, ask)
        return classes

    def newest(self, ask: Ask) -> date | None:
        """The newest stored date in the window, unless a newer one was read before; skipped keys name no date."""
        days = [DATA_KEYS[key] for key in self.stored if self._class(key, ask) not in (*OUT, "skipped")]
        read = [DATA_KEYS[key] for known in (self.seen, self.passing) for key, one in known.items() if not one.bad]
        return max(days) if days and max(days) >= max(read, default=max(days)) else None

    def missing(self, ask: Ask) -> list[str]:
        """Keys that were read with the rest of a date that is replaced now, and are not stored any more."""
        classes = self.classes(ask)
        days = {DATA_KEYS[key] for key, name in classes.items() if name == "planned"}
        return sorted(key for day in days for key in self._gone(day, ask)) if ask.write == "replace_partition" else []

    def unfinished(self, ask: Ask) -> bool:
        """Whether the newest date of a snapshot does not tell the whole truth."""
        newest = self.newest(ask)
        here = {key: self._class(key, ask) for key in self.stored if DATA_KEYS.get(key) == newest}
        return newest is not None and self._is_unfinished(newest, here, ask)

    def _is_unfinished(self, day: date, classes: dict[str, str], ask: Ask) -> bool:
        return bool({*classes.values()} & {"deferred", "quarantined", "skipped"}) or bool(self._gone(day, ask))

    def _of(self, day: date, classes: dict[str, str]) -> list[str]:
        return [key for key, name in classes.items() if DATA_KEYS.get(key) == day and name not in OUT]

    def _replace_whole(self, day: date, classes: dict[str, str]) -> None:
        """A date is planned as a whole, or not at all."""
        keys = self._of(day, classes)
        names = {classes[key] for key in keys}
        if "planned" not in names:
            return
        if names & {"deferred", "quarantined"}:
            for key in keys:
                seen = self.seen.get(key)
                known = seen and not seen.bad and seen.etag == self.stored[key].etag and not self._ruled(key)
                if classes[key] == "planned":
                    classes[key] = "consumed" if known else "deferred"
        else:
            classes.update({key: "planned" for key in keys if classes[key] != "skipped"})

    def _read_whole(self, day: date, classes: dict[str, str], ask: Ask) -> None:
        """What is consumed of a snapshot's newest date is read again with what is new, or if it was read in pieces."""
        keys = self._of(day, classes)
        names = {classes[key] for key in keys}
        versions = {self.last[key].version for key in keys if classes[key] == "consumed" and not self.last[key].bad}
        finished = not self._is_unfinished(day, {key: classes[key] for key in keys}, ask)
        if "planned" in names or (finished and len(versions) > 1):
            classes.update({key: "planned" for key in keys if classes[key] == "consumed"})

    def _gone(self, day: date, ask: Ask) -> list[str]:
        read = {key: one for key, one in self.last.items() if DATA_KEYS.get(key) == day and not one.bad}
        if not read:
            return []
        last = max(read.values(), key=lambda seen: seen.version)
        together = [key for key, seen in read.items() if seen.version == last.version]
        return [key for key in (together if last.declaration == ask.declaration else read) if key not in self.stored]

    def _class(self, key: str, ask: Ask) -> str:
        obj, seen = self.stored[key], self.seen.get(key)
        if self._ignored(key, ask):
            return "ignored"
        day = DATA_KEYS[key]
        if day < START_DATE or (ask.first and day < ask.first) or (ask.last and day > ask.last):
            return "outside_window"
        ruled = self._ruled(key)
        if ruled == "skipped":
            return "skipped"
        if seen and seen.etag == obj.etag and ask.mode != "full" and not ruled:
            if not seen.bad:
                return "consumed"
            if seen.declaration == ask.declaration:
                return "quarantined"
        if ask.settle and self.clock < obj.modified + ask.settle:
            return "deferred"
        return "planned" if self._ready(key, ask) else "deferred"

    def _ignored(self, key: str, ask: Ask) -> bool:
        obj = self.stored[key]
        # an object that was emptied had rows, or was refused as it is
        readings = [known[key] for known in (self.seen, self.passing) if key in known]
        emptied = any(not one.bad or one.etag == obj.etag for one in readings)
        marker = ask.ready == "marker" and key.endswith("/done.csv")
        return key in IGNORED_KEYS or marker or (obj.size == 0 and not emptied)

    def _ruled(self, key: str) -> str:
        etag, ruling = self.rulings.get(key, ("", ""))
        return ruling if etag == self.stored[key].etag else ""

    def _ready(self, key: str, ask: Ask) -> bool:
        folder, _, name = key.rpartition("/")
        if ask.ready == "marker":
            return f"{folder}/done.csv" in self.stored
        if ask.ready == "control":
            return f"{folder}/{name.removesuffix('.csv')}.count" in self.stored
        if ask.ready == "objects":
            there = {other for other in self.stored if not self._ignored(other, ask)} | self.last.keys()
            return sum(DATA_KEYS[other] == DATA_KEYS[key] for other in there) >= 2
        return True

    def rule(self, key: str, ruling: str) -> None:
        """An operator decides about a stored object as it is."""
        self.version += 1
        self.rulings[key] = (self.stored[key].etag, ruling)

    def batches(self, ask: Ask) -> list[list[str]]:
        """The planned keys, oldest first, cut by the bounds; between dates alone where these are read as a whole."""
        planned = [key for key, name in self.classes(ask).items() if name == "planned"]
        planned.sort(key=lambda key: (self.stored[key].modified, key))
        if ask.write in ("upsert", "append"):
            pieces = [[key] for key in planned]
        else:
            newest = self.newest(ask) if ask.write == "snapshot" else None
            days = sorted({DATA_KEYS[key] for key in planned}, key=lambda day: (day != newest, day))
            pieces = [[key for key in planned if DATA_KEYS[key] == day] for day in days]
        batches: list[list[str]] = []
        for piece in pieces:
            together = [*(batches[-1] if batches else ()), *piece]
            fits = bool(batches)
            fits = fits and (ask.max_files is None or len(together) <= ask.max_files)
            fits = fits and (ask.max_bytes is None or sum(self.stored[key].size for key in together) <= ask.max_bytes)
            batches[-1].extend(piece) if fits else batches.append([*piece])
        return [sorted(batch, key=lambda key: (self.stored[key].modified, key)) for batch in batches]

    def commit(self, batch: list[str], bad: set[str], ask: Ask) -> None:
        """One batch is published; `bad` keys are quarantined. In no-advance mode what is seen stays as it was."""
        self.version += 1
        for key in batch:
            etag = self.stored[key].etag
            self.reads.append((key, etag, self.version))
            reading = Seen(etag, key in bad, ask.declaration, self.version)
            if ask.mode == "no-advance":
                self.passing[key] = reading
                continue
            if self.rulings.get(key, ("", ""))[1] == "planned":
                del self.rulings[key]
            self.seen[key] = reading
            self.passing.pop(key, None)
