"""Commands of INTERFACE.md whose feature does not exist yet: each says so and exits with 2."""

from __future__ import annotations

import typer

from lakehouse.errors import NotAvailable

_COMMANDS = {
    "doctor": "check every permission and connection",
    "adopt": "take over an existing Iceberg table",
    "explain": "why an object was read, skipped, deferred or rejected",
    "hold": "stop loads of a table until it is released",
    "release": "let a held table load again",
    "diagnose": "which state holds, the evidence, the next command",
    "arrivals": "arrival delays and the advised window",
    "maintain": "compaction, expiry, orphan removal",
    "infer": "write a declaration from files",
    "bookmark": "show and move bookmarks",
    "object": "skip, release or reload one object",
    "gate": "accept a failed gate",
}
_ANY = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_to(app: typer.Typer) -> None:
    for name, purpose in _COMMANDS.items():
        app.command(name, help=f"Not available yet: {purpose}.", context_settings=_ANY, hidden=True)(_refusal(name))


def _refusal(name: str):  # type: ignore[no-untyped-def]
    def command(context: typer.Context) -> None:
        given = " ".join([name, *(a for a in context.args if not a.startswith("-"))][:2])
        raise NotAvailable(f"lakehouse {given} is not available yet", next="lakehouse --help")

    return command
