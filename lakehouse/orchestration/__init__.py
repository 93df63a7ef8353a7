"""Dagster's side of lakehouse: asset, checks, sensor and schedule of each declared table.

Thin: every body unwraps its context, calls the library and turns the answer into Dagster's values. Nothing here decides
what is read or written, and nothing that a Dagster instance remembers is trusted over the table.
"""

from __future__ import annotations

from lakehouse.orchestration.run_checks import CheckOutcome, run_checks
from lakehouse.orchestration.table import build_definitions, build_table_definitions

__all__ = ["CheckOutcome", "build_definitions", "build_table_definitions", "run_checks"]
