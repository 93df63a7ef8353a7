"""The code location: every declaration and definition below `defs`. Loads lazily; importing it reads nothing."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """A load is one step with one writer, so runs execute in their own process and start no others."""
    tables = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(tables, dg.Definitions(executor=dg.in_process_executor))
