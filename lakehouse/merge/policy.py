"""The rule by which a data file with dead rows is rewritten, dropped, or left with a position delete file. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakehouse.errors import ConfigurationError
from lakehouse.naming import MERGE_MODE, REWRITE_RATIO, SMALL_FILE_BYTES

DEFAULT_RATIO = 0.25
"""Position deletes make a batch cheap and every later read dearer. Up to a quarter of dead rows a full scan reads at
most a third more than it needs, while rewriting a file for fewer costs more than four times what changes."""
DEFAULT_SMALL_BYTES = 128 << 10
"""A file of this size is rewritten as fast as a delete file is written, and leaves one file instead of two."""


class Fate(StrEnum):
    """What becomes of a data file with dead rows."""

    REWRITE = "rewrite"
    DROP = "drop"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """`ratio` of dead rows from which a file is rewritten; files up to `small_bytes` are at any."""

    ratio: float
    small_bytes: int
    why: str

    def decide(self, *, rows: int, size: int, dead: int) -> Fate:
        """The fate of a file of `rows` rows and `size` bytes, `dead` of them dead, earlier batches' included."""
        if dead >= rows:
            return Fate.DROP
        if size <= self.small_bytes or dead >= rows * self.ratio:
            return Fate.REWRITE
        return Fate.DELETE

    def __str__(self) -> str:
        return self.why


def merge_rule(properties: Mapping[str, str], *, format_version: int) -> MergeRule:
    """The rule of a table. Raises ConfigurationError for a property that is no number."""
    mode = properties.get(MERGE_MODE, "")
    if format_version < 2:
        return MergeRule(0.0, 0, "rewrite every file with a dead row: format version 1 has no delete files")
    if mode == "copy-on-write":
        return MergeRule(0.0, 0, f"rewrite every file with a dead row: {MERGE_MODE}={mode}")
    if mode == "merge-on-read":
        return MergeRule(math.inf, 0, f"position deletes in every file with a dead row: {MERGE_MODE}={mode}")
    ratio = _number(properties, REWRITE_RATIO, DEFAULT_RATIO)
    small = int(_number(properties, SMALL_FILE_BYTES, DEFAULT_SMALL_BYTES))
    return MergeRule(ratio, small, f"rewrite a file from {ratio:.0%} dead rows or below {small} bytes, else delete")


def _number(properties: Mapping[str, str], name: str, default: float) -> float:
    text = properties.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise ConfigurationError(f"the table property is no number from 0 on: {name}={text!r}", next=f"unset {name}")
    return value
