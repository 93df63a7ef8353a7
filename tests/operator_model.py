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
    """What moves together: the objects that were read with their content, what is decided beside them, and the rows."""

    seen: dict[str, str] = field(default_factory=dict)
    table: dict[int, Row] = field(default_factory=dict)


@dataclass
class LakeModel:
    """`history` is what each bookmark version left behind, version 0 first."""

    files: dict[str, File] = field(default_factory=dict)
    now: Known = field(default_factory=Known)
    rulings: dict[str, tuple[str, str]] = field(default_factory=dict)
    held: bool = False
    history: list[Known] = field(default_factory=lambda: [Known()])

    @property
    def version(self) -> int:
        return len(self.history) - 1

    def ruled(self, name: str) -> str:
        """What an operator has decided about the file as it is now."""
        etag, ruling = self.rulings.get(name, ("", ""))
        return ruling if etag == self.files[name].etag else ""

    def read_already(self, name: str) -> bool:
        return self.now.seen.get(name) == self.files[name].etag

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
        seen = dict(self.now.seen)
        if mode != "no-advance":
            seen.update({name: self.files[name].etag for name in names})
            self.rulings = {n: ruled for n, ruled in self.rulings.items() if n not in names or ruled[1] == SKIPPED}
        self._publish(Known(seen, table))
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
        self.rulings[name] = (self.files[name].etag, SKIPPED if change == "skip" else WANTED)
        self._publish(self.now)
        return True

    def hold(self, held: bool) -> bool:
        """Whether anything was published: holding again replaces author and reason."""
        published = held or self.held
        self.held = held
        if published:
            self._publish(self.now)
        return published

    def reset(self) -> None:
        self._publish(replace(self.now, seen={}))

    def rewind(self, version: int, *, with_table: bool = False) -> None:
        past = self.history[version]
        self._publish(Known(past.seen, past.table if with_table else self.now.table))

    def set_to_now(self) -> bool:
        names = self.planned()
        if names:
            self._publish(replace(self.now, seen={**self.now.seen, **{n: self.files[n].etag for n in names}}))
            self.rulings = {n: ruled for n, ruled in self.rulings.items() if n not in names or ruled[1] == SKIPPED}
        return bool(names)

    def operator_change(self) -> None:
        """A change that leaves what is known as it is: a rename."""
        self._publish(self.now)

    def _publish(self, known: Known) -> None:
        self.now = known
        self.history.append(known)
