"""Where the objects of a table land: uri, dates in their paths, bounds and the context of the position. Pure."""

from __future__ import annotations

import re
from datetime import date
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Strict

from lakehouse.declaration.fields import Context, Count, Glob, Positive, Size, Values, only
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


class Source(Values):
    """One source. Seconds and days are whole numbers, `max_bytes` is in bytes; None is unbounded."""

    uri: Annotated[str, Strict(), AfterValidator(_folder)]
    partition: Annotated[str, Strict(), AfterValidator(_partition)] | None = None
    files: Glob = "**"
    format: Format
    bookmark: Context
    lookback_days: Count = 3
    settle_seconds: Count = 0
    ready: Annotated[None, only(None)] = None
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
