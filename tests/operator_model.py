"""A plain model of one upsert table, its landing prefix and its bookmark under everything that operators may do.

It keeps dicts of text and numbers and repeats the rules of docs/operations.md in the simplest words; it uses no code of
the loader.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

SKIPPED, WANTED = "skipped", "planned"


@dataclass(frozen=True)
class Row:
    """One version of a business key: the newest `order` wins; no two versions of a key share one."""

    key: int
    order: int
    amount: str


@dataclass(frozen=True)
class File:
    """A landing object: the day in its path and what it holds. `etag` names the content."""

    day: str
    etag: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Known:
    """What moves together: the objects that are seen, each with its content and the version at which it was read or set
    to read, what is decided about some, and the rows."""

    seen: dict[str, tuple[str, int]] = field(default_factory=dict)
    rulings: dict[str, tuple[str, str]] = field(default_factory=dict)
    table: dict[int, Row] = field(default_factory=dict)


@dataclass
class LakeModel:
    """`history` is what each bookmark version left behind, version 0 first."""

    files: dict[str, File] = field(default_factory=dict)
    now: Known = field(default_factory=Known)
    held: bool = False
    history: list[Known] = field(default_factory=lambda: [Known()])

    @property
    def version(self) -> int:
        return len(self.history) - 1

    def ruled(self, name: str) -> str:
        """What an operator has decided about the file as it is now."""
        etag, ruling = self.now.rulings.get(name, ("", ""))
        return ruling if etag == self.files[name].etag else ""

    def read_already(self, name: str) -> bool:
        return name in self.now.seen and self.now.seen[name][0] == self.files[name].etag

    def planned(self, *, full: bool = False, day: str | None = None) -> list[str]:
        """The files that a load would read."""
        return [
            name
            for name, file in sorted(self.files.items())
            if (day is None or file.day == day)
            and self.ruled(name) != SKIPPED
            and (full or self.ruled(name) == WANTED or not self.read_already(name))
        ]

    def load(self, *, mode: str = "incremental", day: str | None = None) -> bool:
        """Whether anything was published."""
        names = self.planned(full=mode == "full", day=day)
        if self.held or not names:
            return False
        table = dict(self.now.table)
        for row in (row for name in names for row in self.files[name].rows):
            if row.key not in table or table[row.key].order < row.order:
                table[row.key] = row
        seen = self.now if mode == "no-advance" else self._with_seen(names)
        self._publish(replace(seen, table=table))
        return True

    def rule(self, name: str, change: str) -> bool:
        """`skip`, `release` or `reload` a file as it is. Whether anything was published."""
        ruled, read = self.ruled(name), self.read_already(name)
        waiting = ruled == WANTED or not (ruled or read)
        wanted = {
            "skip": ruled != SKIPPED,
            "release": ruled == SKIPPED,
            "reload": not waiting,
        }[change]
        if not wanted:
            return False
        ruling = (self.files[name].etag, SKIPPED if change == "skip" else WANTED)
        self._publish(replace(self.now, rulings={**self.now.rulings, name: ruling}))
        return True

    def hold(self, held: bool) -> bool:
        """Whether anything was published: holding again replaces author and reason."""
        published = held or self.held
        self.held = held
        if published:
            self._publish(self.now)
        return published

    def reset(self) -> bool:
        if not self.now.seen:
            return False
        self._publish(replace(self.now, seen={}))
        return True

    def rewind(self, version: int) -> bool:
        """What was to be read again then is so again; what was decided since stays."""
        past = self.history[version]
        after = replace(self.now, seen=past.seen, rulings={**_wanted(past), **self.now.rulings})
        if (after.seen, after.rulings) == (self.now.seen, self.now.rulings):
            return False
        self._publish(after)
        return True

    def rewind_with_table(self, version: int) -> bool:
        if version == self.version:
            return False
        past = self.history[version]
        self._publish(Known(past.seen, {**_wanted(past), **self.now.rulings}, past.table))
        return True

    def set_to_now(self) -> bool:
        names = self.planned()
        if names:
            self._publish(self._with_seen(names))
        return bool(names)

    def operator_change(self) -> None:
        """A change that leaves what is known as it is: a rename."""
        self._publish(self.now)

    def _with_seen(self, names: list[str]) -> Known:
        seen = {**self.now.seen, **{name: (self.files[name].etag, len(self.history)) for name in names}}
        rulings = {n: ruled for n, ruled in self.now.rulings.items() if n not in names or ruled[1] == SKIPPED}
        return replace(self.now, seen=seen, rulings=rulings)

    def _publish(self, known: Known) -> None:
        self.now = known
        self.history.append(known)


def _wanted(known: Known) -> dict[str, tuple[str, str]]:
    return {name: ruled for name, ruled in known.rulings.items() if ruled[1] == WANTED}
