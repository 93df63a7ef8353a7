"""The landing date in an object's path: which day a key belongs to, and which prefix holds a day. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

_FIELDS = {"Y": "[0-9]{4}", "m": "[0-9]{2}", "d": "[0-9]{2}", "H": "(?:[01][0-9]|2[0-3])"}
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LandingPattern:
    """A compiled `partition:`. Keys are relative to the source's uri, so they never start with `/`.

    A pattern with `/` or `=` names the first folders. Any other is one segment: it is the whole first folder, or else
    stands once in the file name, its digits not glued to further digits.
    """

    text: str
    folders: re.Pattern[str]
    in_name: re.Pattern[str] | None
    day_part: str | None

    @classmethod
    def compile(cls, text: str) -> LandingPattern:
        """Read a pattern of %Y, %m, %d, %H and literal text. Raises ValueError saying what would be right."""
        body = text.removesuffix("/")
        used = {match[1] for match in _DIRECTIVE.finditer(body)}
        if unknown := sorted(used - set(_FIELDS)):
            raise ValueError(f"expected %Y, %m, %d and %H only, not %{unknown[0]}")
        if absent := [f"%{name}" for name in "Ymd" if name not in used]:
            raise ValueError(f"expected a whole date, {' and '.join(absent)} is missing; such as input_date=%Y-%m-%d")
        if any(not segment for segment in body.split("/")):
            raise ValueError("expected folders such as %Y/%m/%d, relative to uri and without empty ones")
        pattern = _expression(body)
        if "/" in text or "=" in text:
            before_hour, hour, _ = body.partition("%H")
            # hours fold into the day: what stands before the hour holds the whole day
            day_part = before_hour if hour else body + "/"
            return cls(body, re.compile(pattern + "/", re.DOTALL), None, day_part or None)
        glued_before = "(?<![0-9])" if body.startswith("%") else ""
        glued_after = "(?![0-9])" if re.search(r"%.\Z", body) else ""
        # a look-ahead finds overlapping places too
        in_name = re.compile(f"{glued_before}(?={pattern}{glued_after})")
        return cls(body, re.compile(pattern + "/", re.DOTALL), in_name, None)

    def locate(self, relative_key: str) -> tuple[date | None, str]:
        """The landing date, None if there is none, and the rest of the key that the `files` glob is about."""
        day, end = _dated_folders(self.folders, relative_key[: relative_key.rfind("/") + 1])
        if day is not None:
            return day, relative_key[end:]
        if self.in_name is None:
            return None, relative_key
        days = [_day(found) for found in self.in_name.finditer(relative_key.rpartition("/")[2])]
        dates = {day for day in days if day}
        return (dates.pop() if len(dates) == 1 else None), relative_key

    def folder(self, relative_key: str) -> str | None:
        """The leading folders that name the landing date, with the closing slash; None if folders do not name it."""
        day, end = _dated_folders(self.folders, relative_key[: relative_key.rfind("/") + 1])
        return relative_key[:end] if day else None

    def match(self, relative_key: str) -> date | None:
        """The landing date; None if the key names no date, no real date or several."""
        return self.locate(relative_key)[0]

    def prefix(self, day: date) -> str | None:
        """The plain string prefix, relative to uri, that all objects of the day share; None if any key can hold it."""
        if self.day_part is None:
            return None
        values = {"Y": f"{day.year:04}", "m": f"{day.month:02}", "d": f"{day.day:02}"}
        return _DIRECTIVE.sub(lambda found: values[found[1]], self.day_part)


def _expression(body: str) -> str:
    """The pattern as an expression; a directive that comes again must say the same."""
    parts: list[str] = []
    seen: set[str] = set()
    end = 0
    for directive in _DIRECTIVE.finditer(body):
        name = directive[1]
        parts.append(re.escape(body[end : directive.start()]))
        parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{_FIELDS[name]})")
        seen.add(name)
        end = directive.end()
    return "".join([*parts, re.escape(body[end:])])


@lru_cache(maxsize=4096)
def _dated_folders(pattern: re.Pattern[str], folders: str) -> tuple[date | None, int]:
    """The day that the folders of a key name, and where the last of these ends. Thousands of keys share a folder."""
    found = pattern.match(folders)
    return (_day(found), found.end()) if found else (None, 0)


def _day(found: re.Match[str]) -> date | None:
    try:
        return date(int(found["Y"]), int(found["m"]), int(found["d"]))
    except ValueError:
        # 2026-02-30 is a folder name, not a date
        return None
