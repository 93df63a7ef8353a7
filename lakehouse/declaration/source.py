"""Where the objects of a table land: uri, dates in their paths, bounds and the context of the position. Pure."""

from __future__ import annotations

import re
from datetime import date
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from lakehouse.declaration.fields import Context, Count, Glob, Positive, Size, Text, Values, matching
from lakehouse.declaration.file_glob import match_glob
from lakehouse.declaration.formats import Format
from lakehouse.declaration.landing_pattern import LandingPattern

_URI = re.compile(r"s3://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]+)(?:/(?P<prefix>[^\x00]*))?", re.DOTALL)


def _folder(uri: str) -> str:
    """The uri with its closing slash: `orders` must never match `orders_backup/`."""
    if not _URI.fullmatch(uri):
        raise ValueError("expected a folder such as s3://bucket/folder/")
    if "*" in uri:
        raise ValueError("expected a folder without *; the glob belongs into files")
    return uri if uri.endswith("/") else uri + "/"


def _partition(text: str) -> str:
    LandingPattern.compile(text)
    return text


class Ready(Values):
    """When an object may be read; exactly one of the three is given.

    `objects`: its landing date has at least so many. `marker`: the folder that names its landing date holds a file of
    this name. `control`: its control file is there, named as in `gates.control_file`.
    """

    objects: Positive | None = None
    marker: Annotated[str, Strict(), matching(r"[^/\x00]+", "the name of a file such as _SUCCESS")] | None = None
    control: Annotated[Text, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Ready:
        if sum(value is not None for value in (self.objects, self.marker, self.control)) != 1:
            raise ValueError('expected one of objects: 3, marker: _SUCCESS or control: "{stem}.count"')
        return self


class Source(Values):
    """One source. Seconds and days are whole numbers, `max_bytes` is in bytes; None is unbounded."""

    uri: Annotated[str, Strict(), AfterValidator(_folder)]
    partition: Annotated[str, Strict(), AfterValidator(_partition)] | None = None
    files: Glob = "**"
    format: Format
    bookmark: Context
    lookback_days: Count = 3
    settle_seconds: Count = 0
    ready: Ready | None = None
    max_files: Positive | None = None
    max_bytes: Size = 20_000_000_000
    on_overwrite: Literal["keep", "retract"] = "keep"

    @property
    def bucket(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[0]

    @property
    def prefix(self) -> str:
        """The folder inside the bucket: empty, or with a closing slash. Taken as it is, never URL-decoded."""
        return self.uri.removeprefix("s3://").partition("/")[2]

    @cached_property
    def landing(self) -> LandingPattern | None:
        """The compiled `partition`; None if the source is undated."""
        return None if self.partition is None else LandingPattern.compile(self.partition)

    def locate(self, relative_key: str) -> tuple[date | None, bool]:
        """Landing date of a key below uri, and whether `files` asks for it."""
        day, rest = self.landing.locate(relative_key) if self.landing else (None, relative_key)
        return day, match_glob(self.files, rest)
