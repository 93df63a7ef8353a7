"""Secrets are planted wherever a configuration has them, services echo them, loads fail: nothing that is printed,
stored or kept by Dagster holds one.

Where a secret would show without `lakehouse.redaction`, the test makes sure of that first.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
from pyiceberg.utils.config import Config

from lakehouse import redaction
from lakehouse.cli.app import main
from lakehouse.orchestration import build_definitions, failure
from tests.conftest import RunningStack
from tests.lake import DAY_1, Lake, csv, order
from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request
from tests.services.s3_door import S3Door, s3_door

PLANTED = "pl4nted+Secret/Value"
TOKEN = "pl4ntedSessionToken/abc=="
COMMANDS = (
    ("load", "TABLE", "--json"),
    ("load", "TABLE"),
    ("load", "TABLE", "--debug"),
    ("plan", "TABLE", "--debug"),
    ("status",),
    ("diagnose",),
    ("reconcile", "TABLE", "--json"),
    ("doctor", "TABLE"),
    ("doctor", "TABLE", "--json"),
)


@dataclass
class Doors:
    """S3 and the catalog as the lake reaches them; `say` is what the catalog answers instead of working."""

    s3: S3Door
    catalog: FaultyHttp
    say: tuple[int, str] | None = None


@dataclass
class Plant:
    """How a secret gets into the configuration, and who echoes it. `shows`: without redaction it would be seen."""

    env: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Doors], None] = lambda _: None
    shows: bool = True


def s3_echoes(bucket: str) -> Callable[[Doors], None]:
    def prepare(doors: Doors) -> None:
        doors.s3.refuse = lambda one: ("SignatureDoesNotMatch", 403) if one.bucket == bucket else None
        doors.s3.message = f"key {PLANTED} CanonicalRequest x-amz-security-token:{TOKEN}"

    return prepare


def catalog_echoes(status: int) -> Callable[[Doors], None]:
    def prepare(doors: Doors) -> None:
        doors.say = status, f"refused client_secret={PLANTED}, Authorization: Bearer {TOKEN}"

    return prepare


CATALOG = "PYICEBERG_CATALOG__DEFAULT__"
IN_ADDRESS = PLANTED.replace("/", "%2F")
DATABASE = f"postgresql+psycopg2://lake:{IN_ADDRESS}@127.0.0.1"
PLANTS = {
    "landing-echoes": Plant({"AWS_SECRET_ACCESS_KEY": PLANTED, "AWS_SESSION_TOKEN": TOKEN}, s3_echoes("landing")),
    "table-files-echo": Plant(
        {f"{CATALOG}S3__SECRET_ACCESS_KEY": PLANTED, f"{CATALOG}S3__SESSION_TOKEN": TOKEN}, s3_echoes("warehouse")
    ),
    "catalog-echoes-500": Plant({f"{CATALOG}CREDENTIAL": f"lakehouse:{PLANTED}"}, catalog_echoes(500)),
    "catalog-echoes-403": Plant({f"{CATALOG}TOKEN": TOKEN, f"{CATALOG}CREDENTIAL": PLANTED}, catalog_echoes(403)),
    "database-is-not-there": Plant({f"{CATALOG}TYPE": "sql", f"{CATALOG}URI": f"{DATABASE}:9/x"}, shows=False),
    "database-port-is-no-number": Plant({f"{CATALOG}TYPE": "sql", f"{CATALOG}URI": f"{DATABASE}:no/x"}, shows=False),
    "proxy": Plant({"HTTP_PROXY": f"http://me:{IN_ADDRESS}@127.0.0.1:9", "NO_PROXY": "", "no_proxy": ""}, shows=False),
    "endpoint": Plant({"AWS_ENDPOINT_URL_S3": f"http://me:{IN_ADDRESS}@DOOR"}, s3_echoes("landing")),
    "presigned": Plant({"LAKEHOUSE_STATE": f"https://state.s3.amazonaws.com/x?X-Amz-Date=1&X-Amz-Signature={PLANTED}"}),
    "warehouse": Plant({f"{CATALOG}WAREHOUSE": f"https://me:{IN_ADDRESS}@host/w", "LAKEHOUSE_STATE": ""}),
}


@pytest.fixture
def doors(stack: RunningStack) -> Iterator[Doors]:
    def between(request: Request, forward: Forward) -> Reply:
        if opened.say is None:
            return forward(request)
        status, text = opened.say
        error: dict[str, object] = {"error": {"message": text, "type": "Refused", "code": status}}
        if "/oauth/" in request.path:
            status, error = 401, {"error": "invalid_client", "error_description": text}
        return Reply(status, {"Content-Type": "application/json"}, json.dumps(error).encode())

    catalog = FaultyHttp(stack.stack.catalog_uri, between=between)
    with s3_door(stack.stack.s3_endpoint) as s3, catalog.running():
        opened = Doors(s3, catalog)
        yield opened


@pytest.fixture
def lake(stack: RunningStack, tmp_path: Path) -> Lake:
    """Loaded once: what fails later has a state to be written to."""
    made = Lake(stack, tmp_path)
    made.put(DAY_1, "orders.csv", csv(order(1)))
    assert made.load().exit_code == 0
    made.put(DAY_1, "more.csv", csv(order(2)))
    return made


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "RETRY_SECONDS", 0)


def printed(lake: Lake, *arguments: str) -> str:
    """All that a command says, and what it wrote of a bug."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit):
        main([lake.table if word == "TABLE" else word for word in arguments])
    text = said.getvalue()
    return text + "".join(Path(name).read_text() for name in re.findall(r"details in (\S+\.log)", text))


def kept_by_dagster(lake: Lake) -> str:
    """Every event of a run of the asset with its checks: logs, metadata, failures, tracebacks."""
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_definitions([lake.declaration]).resolve_implicit_global_asset_job_def()
        done = job.execute_in_process(instance=instance, tags={"dagster/partition": str(DAY_1)}, raise_on_error=False)
        entries = instance.all_logs(done.run_id)
        assert entries
        return "\n".join(dg.serialize_value(entry) + entry.user_message for entry in entries)


def stored(lake: Lake) -> str:
    """Every state object of the lake, and the ledger."""
    found = lake.stack.s3.list_objects_v2(Bucket="state", Prefix=f"{lake.name}/").get("Contents", [])
    bodies = [lake.stack.s3.get_object(Bucket="state", Key=one["Key"])["Body"].read() for one in found]
    assert bodies
    texts = [
        str(pq.read_table(io.BytesIO(body)).to_pydict()) if body[:4] == b"PAR1" else body.decode() for body in bodies
    ]
    return "\n".join(texts)


def seen(text: str) -> list[str]:
    return [secret for secret in (PLANTED, IN_ADDRESS, TOKEN) if secret in text]


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_secret_is_seen_nowhere(
    name: str, lake: Lake, doors: Doors, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plant = PLANTS[name]
    plant.prepare(doors)
    through = {"AWS_ENDPOINT_URL_S3": doors.s3.url, f"{CATALOG}S3__ENDPOINT": doors.s3.url}
    if doors.say:
        through |= {
            f"{CATALOG}URI": doors.catalog.url,
            f"{CATALOG}OAUTH2_SERVER_URI": f"{doors.catalog.url}/v1/oauth/tokens",
        }
    for variable, value in {**lake.env, **through, **plant.env}.items():
        monkeypatch.setenv(variable, value.replace("DOOR", doors.s3.url.removeprefix("http://")))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    if plant.shows:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redaction, "_FORMS", ())
            patch.setattr(redaction, "_written", lambda secrets: ())
            without = [printed(lake, *command) for command in COMMANDS]
        assert seen("".join(without)), without
    for command in COMMANDS:
        text = printed(lake, *command)
        assert not seen(text), (command, text)
    text = kept_by_dagster(lake)
    assert not seen(text), text
    assert not seen("".join(capfd.readouterr()))
    assert not seen(stored(lake))


def test_a_bug_shows_no_secret(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected, in a load and in a check."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"out of {PLANTED}") from ValueError(TOKEN)

    for variable, value in {**lake.env, "SOME_API_TOKEN": TOKEN, "LAKE_PASSWORD": PLANTED}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("lakehouse.ingest.plan_load", fail)
    monkeypatch.setattr("lakehouse.cli.load.plan_load", fail)
    monkeypatch.setattr("lakehouse.audit.recount.recount", fail)
    for command in (("plan", "TABLE"), ("plan", "TABLE", "--debug"), ("reconcile", "TABLE")):
        text = printed(lake, *command)
        assert not seen(text), text
    assert "RuntimeError" in printed(lake, "plan", "TABLE", "--debug")
    text = kept_by_dagster(lake)
    assert "Redacted" in text
    assert not seen(text), text


def test_a_load_that_succeeds_keeps_none(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the stack itself are the plant: in logs of both kinds, receipts, manifests, ledger and metadata."""
    secret = lake.stack.stack.secret_key
    for variable, value in lake.env.items():
        monkeypatch.setenv(variable, value)
    texts = [kept_by_dagster(lake)]
    for style in ("json", "text"):
        monkeypatch.setenv("LAKEHOUSE_LOG", style)
        lake.put(DAY_1, f"{style}.csv", csv(order(3 if style == "json" else 4), "broken"))
        log = printed(lake, "load", "TABLE")
        assert "rows_inserted" in log
        texts.append(log)
    texts.append(stored(lake))
    texts += [str(lake.ledger(name)) for name in ("files", "batches", "rejects", "reconciliations")]
    table = lake.stack.catalog().load_table(lake.table)
    texts.append(table.metadata.model_dump_json())
    assert all(len(text) > 100 for text in texts)
    assert [text for text in texts if secret in text] == []
