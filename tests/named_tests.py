"""Whether the tests that a table names exist."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]


def exists(named: str) -> bool:
    """`named` is `path::name`, the path from the root of the repository."""
    path, _, name = named.partition("::")
    if not (ROOT / path).is_file():
        return False
    tree = ast.parse((ROOT / path).read_text())
    return name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
