"""`lakehouse metrics`: where every table stands and how its loads have gone of late, as Prometheus reads it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, generate_latest, start_http_server, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lakehouse.audit.status import TableStatus
from lakehouse.cli.audit import status_or_error
from lakehouse.cli.output import writing
from lakehouse.declaration import load_declarations
from lakehouse.errors import ConfigurationError, UsageError
from lakehouse.settings import assets_folder

Listen = Annotated[
    str | None,
    typer.Option("--listen", metavar="HOST:PORT", help="Answer scrapes until Ctrl-C; each looks at every table."),
]
TextFile = Annotated[
    Path | None,
    typer.Option("--textfile", metavar="FILE", help="Write them once, for the textfile collector of node_exporter."),
]
AT_ONCE = 8
"""So many sources are looked at at the same time."""

_LABELS = ("table", "source")
_HELP = {
    "up": "1 if the table could be looked at",
    "bookmark_version": "version of the bookmark",
    "rows": "rows of the table",
    "ledger_ok": "1 if the ledger is as far as the bookmark",
    "last_batch_timestamp_seconds": "when the newest version was published, or decided by an operator",
    "loads": "batches of the last 30 days",
    "recoveries": "changes of the last 30 days by which operators brought the table back on its way",
    "late_arrivals": "objects of the last 30 days that came after the declared window",
    "merge_share": "seconds of merging of the seconds of loads in the last 30 days",
    "staging_variance": "staged rows of the newest load against the median of those before it, 0.5 is half more",
    "seconds_to_confirmed": "from the newest failure to the version that was published after it",
    "open_failure_seconds": "since the first failure that no version has followed",
}


def add_to(app: typer.Typer) -> None:
    app.command("metrics", epilog="Example: lakehouse metrics --listen 127.0.0.1:9464")(metrics)


def metrics(listen: Listen = None, textfile: TextFile = None) -> None:
    """Where every table stands and how its loads have gone of late, in Prometheus' text format."""
    if listen is not None and textfile is not None:
        raise UsageError("--listen and --textfile exclude each other")
    registry = CollectorRegistry()
    registry.register(_Tables())
    if textfile is not None:
        _write(textfile, registry)
    elif listen is not None:
        _serve(listen, registry)
    else:
        text = generate_latest(registry).decode()
        with writing():
            sys.stdout.write(text)


def _write(path: Path, registry: CollectorRegistry) -> None:
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise ConfigurationError(
            f"--textfile {path}: {error.strerror or error}",
            next="lakehouse metrics --textfile FILE, a file in a folder that exists and may be written to",
        ) from error


def _serve(listen: str, registry: CollectorRegistry) -> None:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen: not HOST:PORT: {listen!r}", next="lakehouse metrics --listen 127.0.0.1:9464")
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise ConfigurationError(f"--listen {listen}: {error.strerror or error}") from error
    typer.echo(f"metrics at http://{host}:{server.server_port}/metrics", err=True)
    try:
        thread.join()
    except KeyboardInterrupt:
        server.shutdown()


class _Tables(Collector):
    """Looks at every declared source whenever somebody asks."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing is looked at when it is registered."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        declarations = load_declarations(assets_folder(os.environ), os.environ)
        sources = [one for declaration in declarations for one in declaration.by_source]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="metrics") as pool:
            found = [*pool.map(status_or_error, sources)]
        yield from gauges(found)


def gauges(found: Iterable[TableStatus]) -> Iterator[GaugeMetricFamily]:
    """One family for each number, and `lakehouse_state`, which is 1 for the state that holds. What is not known has no
    sample."""
    statuses = [*found]
    for name, text in _HELP.items():
        family = GaugeMetricFamily(f"lakehouse_{name}", text, labels=_LABELS)
        for one in statuses:
            value = _numbers(one).get(name)
            if value is not None:
                family.add_metric([one.table, one.context], value)
        yield family
    state = GaugeMetricFamily("lakehouse_state", "1 for the state that holds", labels=(*_LABELS, "state"))
    for one in statuses:
        state.add_metric([one.table, one.context, one.state], 1)
    yield state


def _numbers(one: TableStatus) -> dict[str, float | None]:
    if one.measures is None:
        return {"up": one.state != "error"}
    return {
        "up": 1,
        "bookmark_version": one.bookmark_version,
        "rows": one.rows,
        "ledger_ok": one.ledger == "ok",
        "last_batch_timestamp_seconds": one.last_batch_at.timestamp() if one.last_batch_at else None,
        **asdict(one.measures),
    }
