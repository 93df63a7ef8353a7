"""The command that asks for the same load again. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from lakehouse.model import Mode

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration
    from lakehouse.ingest import LoadRequest


def load_command(declaration: Declaration, request: LoadRequest) -> str:
    """The command that asks for the same load."""
    window, mode = request.window, request.mode
    options = {
        "--from": window.first,
        "--to": window.last,
        "--mode": None if mode is Mode.INCREMENTAL else mode.value,
        "--from-batch": request.from_batch,
        "--to-batch": request.to_batch,
    }
    given = [f" {name} {shlex.quote(str(value))}" for name, value in options.items() if value is not None]
    missing = " --accept-missing" if request.accept_missing else ""
    return f"lakehouse load {declaration.table}{declaration.source_option}{''.join(given)}{missing}"
