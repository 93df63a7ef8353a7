"""A machine that is nobody's, and the real services. Tests see no AWS or catalog configuration of their user."""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from lakehouse.stack import (
    LANDING_BUCKET,
    STATE_BUCKET,
    Stack,
    catalog_properties,
    free_ports,
    stack_environment,
    temporary_stack,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyiceberg.catalog import Catalog

    from tests.catalogs import CatalogStack
    from tests.lake import SaidBy
    from tests.racer import Racer
    from tests.services.faulty_http import FaultyHttp

_FOREIGN = ("AWS_", "PYICEBERG_", "LAKEHOUSE_", "DAGSTER_")
_KEPT = ("LAKEHOUSE_CHAOS_",)


def pytest_configure(config: pytest.Config) -> None:
    """Hide the user's configuration before any module reads it; tests of a real account (`-m aws`) are to see it."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A job in a shell's background ignores SIGINT, and so would all that tests start and interrupt; Dagster hands what
    # SIGINT does on to SIGTERM.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("lakehouse", deadline=None)  # how long an example takes says nothing on a shared machine
    settings.load_profile("lakehouse")
    if config.option.markexpr == "aws":
        return
    for name in [n for n in os.environ if n.startswith(_FOREIGN) and not n.startswith(_KEPT)]:
        del os.environ[name]
    home = tempfile.TemporaryDirectory(prefix="lakehouse-tests-")
    config.add_cleanup(home.cleanup)
    # PyIceberg looks in its own folder, the home folder and here, and takes the first file that says anything.
    (Path(home.name) / ".pyiceberg.yaml").write_text("default-catalog: default\n")
    nothing = Path(home.name) / "nothing"
    os.environ |= {
        "PYICEBERG_HOME": home.name,
        "AWS_CONFIG_FILE": str(nothing),
        "AWS_SHARED_CREDENTIALS_FILE": str(nothing),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The kill matrix as a table, with what was run of it."""
    reports = [report for found in terminalreporter.stats.values() for report in found if _is_of_a_fault(report)]
    if reports:
        from tests.fault.record import show

        show(reports, terminalreporter)


def _is_of_a_fault(report: Any) -> bool:
    properties = report.user_properties if getattr(report, "when", "") == "call" else ()
    return any(name == "fault" for name, _ in properties)


def _interrupt(number: int, frame: object) -> None:
    """SIGTERM ends the tests like Ctrl-C, so that fixtures stop what they started."""
    raise KeyboardInterrupt


@dataclass(frozen=True)
class RunningStack:
    """The session's S3 and REST catalog. A test that asks for it also has `env` in its own environment."""

    stack: Stack

    @cached_property
    def env(self) -> dict[str, str]:
        return stack_environment(self.stack)

    @cached_property
    def s3(self) -> S3Client:
        import boto3

        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.stack.s3_endpoint,
            aws_access_key_id=self.stack.access_key,
            aws_secret_access_key=self.stack.secret_key,
            region_name=self.env["AWS_REGION"],
        )

    def catalog(self) -> Catalog:
        """A new client of the catalog."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("default", **catalog_properties(self.stack))

    @contextmanager
    def active(self) -> Iterator[None]:
        """`env` in this process, for fixtures that live longer than one test."""
        with pytest.MonkeyPatch.context() as patch:
            _apply(self.env, patch)
            yield


@dataclass(frozen=True)
class Place:
    """Names that no other test of this run uses. `landing` and `state` are URIs, `landing` ends with a slash."""

    name: str

    @property
    def namespace(self) -> str:
        return self.name

    @property
    def prefix(self) -> str:
        """Key prefix in the landing bucket, with its slash."""
        return f"{self.name}/"

    @property
    def landing(self) -> str:
        return f"s3://{LANDING_BUCKET}/{self.prefix}"

    @property
    def state(self) -> str:
        return f"s3://{STATE_BUCKET}/{self.name}"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A real S3 and a real Iceberg REST catalog, one for the whole session, killed however the session ends."""
    with temporary_stack(tmp_path_factory.mktemp("stack"), free_ports()) as started:
        yield RunningStack(started)


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets of one test are words in another."""
    monkeypatch.setattr("lakehouse.redaction._remembered", {})


@pytest.fixture(autouse=True)
def _stack_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "stack" in request.fixturenames:
        _apply(request.getfixturevalue("stack").env, monkeypatch)


@pytest.fixture
def place(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A namespace, landing prefix and state folder of this test's own; LAKEHOUSE_STATE points at it."""
    place = Place(f"t_{uuid.uuid4().hex[:12]}")
    monkeypatch.setenv("LAKEHOUSE_STATE", place.state)
    return place


@pytest.fixture
def said_by() -> SaidBy:
    """The command line in this process: exit code and JSON of standard output."""
    return lambda lake, *arguments: lake.said(*arguments)[:2]


@pytest.fixture(scope="session")
def postgres() -> Iterator[int]:
    """The port of a throw-away PostgreSQL server."""
    from tests.services.postgres import find_programs, running_postgres

    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL: initdb and postgres are missing, apt-get install postgresql")
    with running_postgres(programs) as port:
        yield port


@pytest.fixture(scope="session")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyHttp]:
    """A Glue control plane, and the door before it that loses, refuses and holds what it is told to."""
    from tests.services.glue import running_glue

    with running_glue(tmp_path_factory.mktemp("glue")) as door:
        yield door


@pytest.fixture(params=["rest", "postgres", "glue"])
def catalog_stack(request: pytest.FixtureRequest, stack: RunningStack) -> CatalogStack:
    """The session's S3 with each kind of catalog that is supported."""
    from tests.catalogs import glue_stack, postgres_stack, rest_stack

    if request.param == "postgres":
        return postgres_stack(stack, request.getfixturevalue("postgres"))
    if request.param == "glue":
        return glue_stack(stack, request.getfixturevalue("glue"))
    return rest_stack(stack)


@pytest.fixture(scope="session")
def crew() -> Iterator[Sequence[Racer]]:
    """Four processes that run loads as they are told."""
    from tests.racer import racers

    with racers(4) as started:
        yield started


def _apply(env: dict[str, str], patch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        patch.setenv(name, value)
    # PyIceberg reads its environment once, when it is imported; `load_catalog("default")` needs it again.
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    patch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
