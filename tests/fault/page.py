"""The page of the kill matrix, from its value and the figures of the last complete runs: `python -m tests.fault.page`
writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fault.matrix import FAULTS, Fault, cells, runs
from tests.fault.record import read_record
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
S3 and of the catalog are made by a server of the tests between the load and the real service. This page is written, by
`python -m tests.fault.page`, from the matrix of the tests and the figures that `LAKEHOUSE_CHAOS_RECORD=1 make chaos`
keeps.

| fault | what happens | exit | `diagnose` says | the rerun says | cells | green | run at |
|---|---|---|---|---|---|---|---|
"""
_RANDOM = """
## Random faults

Loads of random data in a random write mode, each under a random fault: a kill at a point or at some time, a fault of
the matrix, a service that fails at some request of the load, once or for good, a disk that is soon full. After each the
table is compared with one to which nothing happened. What `diagnose` should say is decided by what is known apart from
it: how the process ended, the points that it passed, and what the table and its ledger hold.
"""


def page() -> str:
    head = _HEAD.format(
        modes=", ".join(MODES),
        objects=" and with ".join(OBJECTS),
        loads=" and in a ".join(LOADS),
        cells=sum(map(runs, cells())),
    )
    record = read_record()
    rows = [_row(fault, record["cells"].get(fault.name, {})) for fault in FAULTS]
    return head + "".join(rows) + _random(record["random"])


def _row(fault: Fault, seen: Mapping[str, tuple[int, str]]) -> str:
    code = "killed" if fault.kills else fault.outcome.code
    states = " or ".join(state.value for state in (fault.outcome.state, fault.or_else) if state)
    what = f"killed when {fault.what}" if fault.kills else fault.what
    own = {cell.id: runs(cell) for cell in cells() if cell.fault == fault}
    last = {name: told for name, told in seen.items() if name in own}
    counts = f"{sum(green for green, _ in last.values())} of {sum(own[name] for name in last)}"
    when = max((when for _, when in last.values()), default="-")
    texts = (what, code, states, fault.outcome.rerun, sum(own.values()), counts if last else "-", when)
    return f"| `{fault.name}` | " + " | ".join(map(str, texts)) + " |\n"


def _random(found: Mapping[str, Any]) -> str:
    if not found:
        return ""
    figures = "\n".join(found["lines"])
    return f"{_RANDOM}\n{figures}\n\nRun at {found['when']}.\n"


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page())
