"""`lakehouse doctor` names what is missing and how to allow it, and leaves nothing of its own behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.utils.config import Config

from tests.catalogs import CatalogLake, CatalogStack, glue_stack
from tests.conftest import RunningStack
from tests.lake import DAY_1, Lake, csv, order
from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request
from tests.services.glue import operation, refused
from tests.services.s3_door import S3Door, s3_door

Between = Callable[[Request, Forward], Reply]
DENIED = ("AccessDenied", 403)
SMALL = "max_bytes: 1GB"
"""Batches for which any disk has room."""


@dataclass
class DoorLake(Lake):
    """A lake whose landing objects, state and table files are reached through a door."""

    door: S3Door | None = None

    @property
    def env(self) -> dict[str, str]:
        through = {"AWS_ENDPOINT_URL_S3": self.door.url} if self.door else {}
        files = {"PYICEBERG_CATALOG__DEFAULT__S3__ENDPOINT": self.door.url} if self.door else {}
        return {**super().env, **through, **files}

    def doctor(self, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        code, said, _ = self.said("doctor", *(arguments or (self.table,)), "--json")
        assert code == said["exit_code"]
        return code, said["checks"]


@pytest.fixture
def door(stack: RunningStack) -> Iterator[S3Door]:
    with s3_door(stack.stack.s3_endpoint) as opened:
        yield opened


@pytest.fixture
def lake(stack: RunningStack, door: S3Door, tmp_path: Path) -> DoorLake:
    made = DoorLake(stack, tmp_path, door=door, source=SMALL)
    made.put(DAY_1, "orders.csv", csv(order(1)))
    return made


def loaded(lake: DoorLake) -> None:
    """Past the door."""
    lake.door, door = None, lake.door
    assert lake.said("load", lake.table, "--json")[0] == 0
    lake.door = door


def by_name(checks: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [check for check in checks if check["name"] == name]


def keys(lake: Lake, bucket: str, prefix: str = "") -> set[str]:
    """Folder markers left out: Arrow makes one wherever it deletes a file."""
    found = lake.stack.s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    return {o["Key"] for o in found if not o["Key"].endswith("/")}


def standings(checks: list[dict[str, Any]]) -> set[str]:
    return {check["standing"] for check in checks}


def test_before_the_first_load_everything_is_there(lake: DoorLake) -> None:
    code, checks = lake.doctor()
    assert (code, standings(checks)) == (0, {"ok"})
    assert "does not exist yet" in by_name(checks, "table load")[0]["detail"]
    assert lake.stack.catalog().list_tables(f"ops_{lake.name}") == []
    assert keys(lake, "state", f"{lake.name}/") == set()


def test_nothing_of_the_user_is_changed_and_no_probe_stays(lake: DoorLake) -> None:
    loaded(lake)

    def held() -> tuple[object, ...]:
        table = lake.stack.catalog().load_table(lake.table)
        folder = table.location().removeprefix("s3://warehouse/")
        tables = lake.stack.catalog().list_tables(f"ops_{lake.name}")
        return table.metadata_location, tables, keys(lake, "warehouse", folder), keys(lake, "state", f"{lake.name}/")

    before = held()
    code, checks = lake.doctor()
    assert (code, standings(checks)) == (0, {"ok"})
    assert held() == before
    assert {c["name"] for c in checks} >= {
        "versions", "settings", "spill folder", "credentials", "source list", "source read", "catalog", "table load",
        "files write", "files read", "files list", "files delete", "namespace", "table create", "table commit",
        "table drop", "state list", "state create", "state read", "state conditions", "state delete", "clock",
    }  # fmt: skip


RIGHTS = [
    ("landing", "s3:ListBucket", "source list", 'arn:aws:s3:::landing with s3:prefix "{name}/*"'),
    ("landing", "s3:GetObject", "source read", "arn:aws:s3:::landing/{name}/*"),
    ("state", "s3:ListBucket", "state list", 'arn:aws:s3:::state with s3:prefix "{name}/*"'),
    ("state", "s3:PutObject", "state create", "arn:aws:s3:::state/{name}/*"),
    ("state", "s3:GetObject", "state read", "arn:aws:s3:::state/{name}/*"),
    ("state", "s3:DeleteObject", "state delete", "arn:aws:s3:::state/{name}/*"),
    ("warehouse", "s3:PutObject", "files write", "arn:aws:s3:::warehouse/{name}/orders/*"),
    ("warehouse", "s3:ListBucket", "files list", 'arn:aws:s3:::warehouse with s3:prefix "{name}/orders/*"'),
    ("warehouse", "s3:DeleteObject", "files delete", "arn:aws:s3:::warehouse/{name}/orders/*"),
]


def test_a_missing_permission_is_named_with_its_resource(lake: DoorLake, door: S3Door) -> None:
    loaded(lake)
    for bucket, action, check, resource in RIGHTS:
        door.refuse = lambda one, who=(bucket, action): DENIED if (one.bucket, one.action) == who else None  # type: ignore[misc]
        code, checks = lake.doctor()
        found = by_name(checks, check)[0]
        assert (code, found["standing"]) == (2, "missing"), check
        assert f"{action} on {resource.format(name=lake.name)}" in found["grant"]
        assert {c["name"] for c in checks if c["standing"] == "missing"} == {check}


def test_reading_a_table_that_may_not_be_read(lake: DoorLake, door: S3Door) -> None:
    """Every look into it, its metadata included, is refused: none of the other rights can be told then."""
    loaded(lake)
    door.refuse = lambda one: DENIED if (one.bucket, one.action) == ("warehouse", "s3:GetObject") else None
    code, checks = lake.doctor()
    assert code == 2
    assert {c["name"] for c in checks if c["standing"] == "missing"} >= {"files read"}
    assert f"s3:GetObject on arn:aws:s3:::warehouse/{lake.name}/orders/*" in by_name(checks, "files read")[0]["grant"]


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "detail", "next_step"),
    [
        ("NoSuchBucket", 404, 2, "the bucket does not exist", "aws s3 mb s3://landing"),
        ("ExpiredToken", 400, 2, "the credentials have expired", "AWS_SESSION_TOKEN"),
        ("InvalidAccessKeyId", 403, 2, "does not know these credentials", "aws sts get-caller-identity"),
        ("PermanentRedirect", 301, 2, "the bucket is in another region", "export AWS_REGION=us-west-2"),
        ("RequestTimeTooSkewed", 403, 2, "clock", "timedatectl"),
        ("SlowDown", 503, 3, "does not answer or is overloaded", "AWS_ENDPOINT_URL_S3"),
    ],
)
def test_what_is_no_missing_permission_is_told_apart(
    lake: DoorLake, door: S3Door, code: str, status: int, exit_code: int, detail: str, next_step: str
) -> None:
    door.refuse = lambda one: (code, status) if one.bucket == "landing" else None
    ended, checks = lake.doctor()
    (listed,), (read,) = by_name(checks, "source list"), by_name(checks, "source read")
    assert (ended, listed["standing"], read["standing"]) == (exit_code, "missing", "skipped")
    assert detail in listed["detail"]
    assert next_step in listed["next"]
    assert listed["grant"] == ""
    assert standings(by_name(checks, "state create")) == {"ok"}


@pytest.mark.parametrize(
    ("change", "check", "exit_code", "detail"),
    [
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, "source list", 3, "does not answer"),
        ({"AWS_ENDPOINT_URL_S3": "landing"}, "credentials", 2, "no http or https address"),
        ({"PYICEBERG_CATALOG__DEFAULT__URI": "http://127.0.0.1:9"}, "catalog", 3, "does not answer"),
        ({"LAKEHOUSE_CATALOG": "absent"}, "catalog", 2, "is not configured"),
        ({"PYICEBERG_CATALOG__DEFAULT__CREDENTIAL": "a:b"}, "catalog", 2, "refuses our credentials"),
        ({"LAKEHOUSE_SPILL": "/proc/nowhere"}, "spill folder", 2, "cannot be used"),
        ({"LAKEHOUSE_MEMORY": "much"}, "settings", 2, "LAKEHOUSE_MEMORY"),
        ({"LAKEHOUSE_STATE": "s3://absent/lakehouse"}, "state list", 2, "the bucket does not exist"),
        ({"LAKEHOUSE_STATE": "/tmp/state"}, "state create", 2, "storage is s3://"),
        ({"LAKEHOUSE_ASSETS": "/nowhere"}, "declarations", 2, "does not exist"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_an_environment_that_does_not_fit(
    lake: DoorLake, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], check: str, exit_code: int, detail: str
) -> None:
    fitting = lake.env
    monkeypatch.setattr(DoorLake, "env", fitting | change)
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    code, said, _ = lake.said("doctor", "--json")
    found = [c for c in said["checks"] if c["standing"] == "missing"]
    assert (code, found[0]["name"]) == (exit_code, check)
    assert detail in found[0]["detail"]


def test_a_state_that_is_not_the_bookmarks_and_one_that_is_damaged(
    lake: DoorLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lake)
    code, checks = lake.doctor()
    assert (code, by_name(checks, "bookmark")[0]["detail"]) == (0, "at version 1")
    state = lake.services().state
    (manifest,) = [
        item.uri for item in state.list("") if lake.name in item.uri and item.uri.endswith("manifest.parquet")
    ]
    state.delete(state.key(manifest))
    code, checks = lake.doctor()
    (found,) = by_name(checks, "bookmark")
    assert (code, found["standing"], found["next"]) == (0, "warning", f"lakehouse diagnose {lake.table}")
    assert manifest in found["detail"]
    monkeypatch.setattr(DoorLake, "env", lake.env | {"LAKEHOUSE_STATE": "s3://state/elsewhere"})
    code, checks = lake.doctor()
    (found,) = by_name(checks, "bookmark")
    assert (code, found["standing"], found["exit_code"]) == (2, "missing", 2)
    assert "point LAKEHOUSE_STATE at" in found["next"]


def test_one_line_for_each_check_for_people(lake: DoorLake, door: S3Door) -> None:
    door.refuse = lambda one: DENIED if (one.bucket, one.action) == ("landing", "s3:GetObject") else None
    code, _, printed = lake.said("doctor", lake.table)
    assert code == 2
    (line,) = [line for line in printed.splitlines() if line.startswith("missing")]
    assert "source read" in line
    assert f"grant s3:GetObject on arn:aws:s3:::landing/{lake.name}/*" in line
    assert "next: " in line
    assert printed.splitlines()[-1].endswith("1 missing, 0 skipped")


def test_every_kind_of_catalog_is_tried_and_left_as_it_was(catalog_stack: CatalogStack, tmp_path: Path) -> None:
    lake = CatalogLake(catalog_stack, tmp_path, source=SMALL)
    code, said, _ = lake.said("doctor", lake.table, "--json")
    assert (code, standings(said["checks"])) == (0, {"ok"})
    assert catalog_stack.catalog().list_tables(f"ops_{lake.name}") == []


@pytest.mark.parametrize(
    ("call", "check", "standing", "grant"),
    [
        ("GetTable", "table load", "missing", "glue:GetTable on {glue}:table/{name}/orders"),
        (
            "CreateDatabase",
            "namespace",
            "missing",
            "glue:GetDatabase, glue:CreateDatabase on {glue}:database/ops_{name}",
        ),
        ("CreateTable", "table create", "missing", "glue:CreateTable on {glue}:table/ops_{name}/lakehouse_doctor_*"),
        ("UpdateTable", "table commit", "missing", "glue:UpdateTable on {glue}:table/ops_{name}/lakehouse_doctor_*"),
        ("DeleteTable", "table drop", "warning", "glue:DeleteTable on {glue}:table/ops_{name}/lakehouse_doctor_*"),
    ],
)
def test_a_right_on_glue_is_named(
    stack: RunningStack, glue: FaultyHttp, tmp_path: Path, call: str, check: str, standing: str, grant: str
) -> None:
    def between(request: Request, forward: Forward) -> Reply:
        return refused(call) if operation(request) == call else forward(request)

    with FaultyHttp(glue.url, between=between).running() as refusing:
        lake = CatalogLake(glue_stack(stack, refusing), tmp_path)
        code, said, _ = lake.said("doctor", lake.table, "--json")
    found = by_name(said["checks"], check)[0]
    assert (code, found["standing"]) == (2 if standing == "missing" else 0, standing)
    action, _, resource = grant.format(name=lake.name, glue="arn:aws:glue:us-east-1:<account>").partition(" on ")
    assert found["grant"].startswith(f"{action} on arn:aws:glue:us-east-1:<account>:catalog, ")
    assert found["grant"].endswith(resource)


def through_catalog(lake: DoorLake, stack: RunningStack, between: Between) -> tuple[int, list[dict[str, Any]]]:
    """What doctor says if the catalog is reached over another one."""
    with (
        FaultyHttp(stack.stack.catalog_uri, between=between).running() as strict,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(DoorLake, "env", lake.env | {"PYICEBERG_CATALOG__DEFAULT__URI": strict.url})
        patch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", strict.url)
        patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        return lake.doctor()


def refusal(code: int, kind: str) -> Reply:
    error = {"error": {"message": "no", "type": kind, "code": code}}
    return Reply(code, {"Content-Type": "application/json"}, json.dumps(error).encode())


def test_a_catalog_that_takes_no_empty_commit_is_not_blamed(lake: DoorLake, stack: RunningStack) -> None:
    def between(request: Request, forward: Forward) -> Reply:
        empty = request.method == "POST" and json.loads(request.body).get("updates") == []
        return refusal(400, "BadRequestException") if empty else forward(request)

    loaded(lake)
    code, checks = through_catalog(lake, stack, between)
    assert code == 0
    assert [c["standing"] for c in by_name(checks, "table commit")] == ["skipped", "ok"]


def test_a_right_to_purge_is_not_needed(lake: DoorLake, stack: RunningStack) -> None:
    """Some catalogs keep it apart from the right to drop."""
    purges: list[str] = []

    def between(request: Request, forward: Forward) -> Reply:
        if request.method != "DELETE" or "purgerequested=true" not in request.path.lower():
            return forward(request)
        purges.append(request.path)
        return refusal(403, "ForbiddenException")

    code, checks = through_catalog(lake, stack, between)
    assert (code, standings(checks)) == (0, {"ok"})
    assert purges
    assert lake.stack.catalog().list_tables(f"ops_{lake.name}") == []
