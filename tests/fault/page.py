"""The page of the kill matrix, from its value and the figures of the last complete runs: `python -m tests.fault.page`
writes it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fault.matrix import FAULTS, Fault, cells, runs
from tests.fault.record import RECORD
from tests.fault.tables import LOADS, MODES, OBJECTS

PAGE = "docs/kill-matrix.md"
_HEAD = """# Kill matrix

What happens to a load, and what comes of it. Every row is run in each write mode ({modes}), with
{objects}, in a {loads}, on a real S3 and a real Iceberg catalog: {cells} cells.
`make chaos` runs all of them, `make test` a part that moves on with every day.

A cell is green if all of this holds:

- the exit code of the load and the state that `lakehouse diagnose` names right afterwards are those of the row;
- after the same load was run again, the table equals that of a run to which nothing happened, row by row: 0 lost,
  0 doubled;
- the ledger has one row for each bookmark version, and the files and counts of the undisturbed run; every equation of
  `reconcile` holds; nothing is in flight;
- after `lakehouse maintain TABLE orphans`, everything that lies in the folders of the table, its state and its ledger
  is referred to.

A kill is a SIGKILL of the process that loads, at a named point inside a step (`LAKEHOUSE_FAULT=<point>`). The faults of
S3 and of the catalog are made by a server of the tests between the load and the real service. This page is written by
the matrix of the tests.

| fault | what happens | exit | `diagnose` says | the rerun says | cells |
|---|---|---|---|---|---|
"""


def page() -> str:
    head = _HEAD.format(
        modes=", ".join(MODES),
        objects=" and with ".join(OBJECTS),
        loads=" and in a ".join(LOADS),
        cells=sum(map(runs, cells())),
    )
    return head + "".join(map(_row, FAULTS)) + _figures()


def _row(fault: Fault) -> str:
    code = "killed" if fault.kills else fault.outcome.code
    states = " or ".join(state.value for state in (fault.outcome.state, fault.or_else) if state)
    count = sum(runs(cell) for cell in cells() if cell.fault == fault)
    what = f"killed when {fault.what}" if fault.kills else fault.what
    return f"| `{fault.name}` | {what} | {code} | {states} | {fault.outcome.rerun} | {count} |\n"


def _figures() -> str:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    text = ""
    if found := record.get("matrix"):
        text += f"\n## The last complete run\n\n{found['date']}, commit `{found['commit']}`: {found['summary']}.\n"
    if found := record.get("random"):
        text += (
            "\n## Random faults\n\n" + "\n".join(found["lines"]) + f"\n\n{found['date']}, commit `{found['commit']}`.\n"
        )
    return text


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page())
