"""A process is gone only where that is certain."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from lakehouse.process import is_gone, this_process


def test_who_is_alive_and_who_is_gone() -> None:
    here = this_process()
    assert here.pid == os.getpid()
    assert not is_gone(here, here)
    assert is_gone(replace(here, started=here.started - 1), here), "a reused pid is another process"
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    dead = replace(here, pid=child.pid)
    assert is_gone(dead, here), "a zombie works no more"
    child.wait()
    assert is_gone(dead, here)
    for elsewhere in (replace(dead, host="other"), replace(dead, boot="other"), replace(dead, pid_space="other")):
        assert not is_gone(elsewhere, here)
    blind = replace(here, boot="", started=0, pid_space="")
    assert not is_gone(replace(blind, pid=child.pid), blind), "without /proc nothing is known"
