"""Sizes and lengths of time as people write them. Pure."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_TIMES = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}


def parse_bytes(text: str) -> int:
    """Read `20GB`, `512MiB` or a plain number of bytes; raises ValueError saying what would be right."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b?)\s*", text, re.IGNORECASE)
    unit = match[2].lower() if match else "?"
    if match is None or unit not in _UNITS:
        raise ValueError(f"not a size: {text!r}; write for example 20GB, 512MiB or 1000000")
    return int(float(match[1]) * _UNITS[unit])


def parse_age(text: str) -> timedelta:
    """Read `5d`, `36h`, `30m` or `0s`; raises ValueError saying what would be right."""
    match = re.fullmatch(r"\s*(\d{1,7})\s*([dhms])\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(f"not a length of time: {text!r}; write for example 5d, 36h, 30m or 0s")
    return int(match[1]) * _TIMES[match[2].lower()]
