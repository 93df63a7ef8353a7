"""Named points inside the production steps where a fault can be asked for; without one they cost one look-up.

`LAKEHOUSE_FAULT=<point>` kills the process at that point as `kill -9` would: nothing is flushed, closed or released.
`LAKEHOUSE_FAULT=<point>:stop` stops it there until somebody sends SIGCONT, as a long pause of its machine would; again
each time that it comes there, after a lost race for one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from lakehouse.errors import ConfigurationError

VARIABLE = "LAKEHOUSE_FAULT"

LOAD_POINTS = (
    "after_lease",
    "after_plan",
    "after_object",
    "after_stage",
    "after_gates",
    "after_create",
    "after_match",
    "after_deletes",
    "after_file",
    "after_write",
    "after_part",
    "after_checkpoint",
    "after_manifest",
    "before_publish",
    "after_publish",
    "before_ledger",
    "after_ledger_upload",
    "after_ledger_commit",
    "after_ledger",
)
"""In the order in which a load comes to them. Of those that it comes to several times the first one kills."""
UPKEEP_POINTS = ("after_expire", "before_removal")


def check_fault(env: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a point that no step has: a fault that never comes would look like one survived."""
    asked = env.get(VARIABLE, "")
    point, _, action = asked.partition(":")
    if asked and (point not in (*LOAD_POINTS, *UPKEEP_POINTS) or action not in ("", "stop")):
        raise ConfigurationError(
            f"{VARIABLE}={asked} names no fault: it is <point> or <point>:stop, points: "
            f"{', '.join((*LOAD_POINTS, *UPKEEP_POINTS))}",
            next=f"unset {VARIABLE}",
        )


def fault_point(name: str) -> None:
    """Die or stop here if the environment asks for it."""
    point, _, action = os.environ.get(VARIABLE, "").partition(":")
    if point == name:
        os.kill(os.getpid(), signal.SIGSTOP if action == "stop" else signal.SIGKILL)
