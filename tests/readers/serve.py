"""The loop of a reader's server: one JSON line in, one JSON line out, until standard input ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def serve(start: Callable[[], Callable[[dict[str, Any]], Any]]) -> None:
    """Start an engine and answer requests with `{"result": …}`, or `{"error": text}` if the engine raises."""
    # What engines print, from their first line on, must not mix with the answers.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answer = start()
    for line in sys.stdin:
        try:
            reply = {"result": answer(json.loads(line))}
        except Exception as error:  # noqa: BLE001 whatever the engine says is the answer
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)
