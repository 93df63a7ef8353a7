"""Commands of INTERFACE.md whose feature does not exist yet: each says so and exits with 2."""

from __future__ import annotations

from collections.abc import Callable

import typer

from lakehouse.errors import NotAvailable

_COMMANDS = {
    "infer": "write a declaration from files",
}
_ANY = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_to(app: typer.Typer) -> None:
    for name, purpose in _COMMANDS.items():
        app.command(name, help=f"Not available yet: {purpose}.", context_settings=_ANY, hidden=True)(_refusal(name))


def add_refusal(app: typer.Typer, group: str, name: str) -> None:
    """One command of a group that exists already."""
    app.command(name, help="Not available yet.", context_settings=_ANY, hidden=True)(_refusal(f"{group} {name}"))


def _refusal(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        words = [w for w in context.args if not w.startswith("-")][:1] if " " not in name else []
        raise NotAvailable(f"lakehouse {' '.join([name, *words])} is not available yet", next="lakehouse --help")

    return command
