"""The code location: every declaration and definition below `defs`, or the declarations below LAKEHOUSE_ASSETS where
that is set. Loads lazily; importing it reads nothing."""

import os
from pathlib import Path

import dagster as dg

from lakehouse.declaration import load_declarations
from lakehouse.orchestration import build_definitions


@dg.definitions
def defs() -> dg.Definitions:
    """A load is one step with one writer, so runs execute in their own process and start no others."""
    if folder := os.environ.get("LAKEHOUSE_ASSETS"):
        return build_definitions(load_declarations(Path(folder), os.environ))
    tables = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(tables, dg.Definitions(executor=dg.in_process_executor))
