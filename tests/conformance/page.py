"""The page of the bookmark's rules, from their table: `python -m tests.conformance.page` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.table import RULES, Rule

PAGE = "docs/bookmark-rules.md"
_HEAD = """# Rules of the bookmark

What AWS Glue's job bookmarks do, by their documentation, and what happens here. Each rule has a test that is named
after it; those of loads run on a real S3 and a real catalog. This page is written by the table of those tests.

| rule | Glue | here | test |
|---|---|---|---|
"""


def page() -> str:
    return _HEAD + "".join(map(_row, RULES))


def _row(rule: Rule) -> str:
    tests = "; ".join(f"`{name.partition('::')[2]}`" for name in rule.tests)
    return f"| {rule.id} | {rule.glue} | {rule.ours} | {tests or rule.waits} |\n"


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page())
