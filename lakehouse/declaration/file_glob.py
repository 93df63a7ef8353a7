"""Globs over object keys: `*` and `?` do not cross `/`, `**` does, `[ab]` is one of. Pure; never lists anything."""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(r"(?P<folders>(?:^|(?<=/))\*\*/)|(?P<deep>\*\*)|(?P<star>\*)|(?P<one>\?)|(?P<set>\[!?\]?[^\]]*\])")


@lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """The expression that matches a whole key. A leading `**/` also matches no folder at all.

    Raises ValueError saying what would be right.
    """
    if not pattern or pattern.startswith("/"):
        raise ValueError("expected a glob such as *.csv, relative to the folder")
    if "***" in pattern:
        raise ValueError("expected at most two * in a row")
    if "{" in pattern:
        raise ValueError("expected no braces; use [ab], * or two declarations")
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(pattern):
        parts += [_literal(pattern[end : token.start()]), _expression(token)]
        end = token.end()
    return re.compile("".join(parts) + _literal(pattern[end:]), re.DOTALL)


def _literal(text: str) -> str:
    if "[" in text:
        raise ValueError("expected ] after [; [[] is the bracket itself")
    return re.escape(text)


def _expression(token: re.Match[str]) -> str:
    fixed = {"folders": "(?:.*/)?", "deep": ".*", "star": "[^/]*", "one": "[^/]"}
    if token.lastgroup in fixed:
        return fixed[token.lastgroup]
    body = token["set"][1:-1]
    negated = body.startswith("!")
    members = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", body[negated:])
    try:
        re.compile(f"[{members}]")
    except re.error as error:
        raise ValueError(f"expected a set such as [a-z] in place of {token['set']}") from error
    return f"(?!/)[{'^' if negated else ''}{members}]"


def match_glob(pattern: str, text: str) -> bool:
    """Whether the whole of `text` matches. Raises ValueError if the pattern is wrong."""
    return compile_glob(pattern).fullmatch(text) is not None
