"""Named points inside the production steps where a fault can be asked for; without one they cost one look-up.

`LAKEHOUSE_FAULT=<point>` kills the process at that point as `kill -9` would: nothing is flushed, closed or released.
"""

from __future__ import annotations

import os
import signal

POINTS = ("after_lease", "after_stage", "after_write", "before_publish", "after_publish")


def fault_point(name: str) -> None:
    """Die here if the environment asks for it."""
    if os.environ.get("LAKEHOUSE_FAULT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
