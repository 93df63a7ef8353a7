"""Field cases of discovery and reading where S3 itself fails, answer by answer, between the load and the real one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

import lakehouse.ingest
from lakehouse.batch import staging
from lakehouse.model import State
from lakehouse.services import Services
from lakehouse.storage import open_root, s3
from tests.fault.services import ALWAYS, refusal
from tests.lake import DAY_1, Lake, csv, order
from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request
from tests.services.scripted_s3 import QUICK

BUSY = refusal(503, "SlowDown")


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


@pytest.fixture(autouse=True)
def _asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Landing objects come from where the services say, which obstore would else take from the process."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setattr(lakehouse.ingest, "open_root", partial(open_root, patience=QUICK))


@pytest.fixture
def door(stack: Any) -> Iterator[FaultyHttp]:
    with FaultyHttp(stack.stack.s3_endpoint, signed=True).running() as served:
        yield served


def through(door: FaultyHttp, lake: Lake) -> Services:
    """The lake's services; landing objects come through the door."""
    return lake.services(env={**lake.env, "AWS_ENDPOINT_URL_S3": door.url})


def test_d04_an_object_that_s3_does_not_give_is_read_by_the_next_load(lake: Lake, door: FaultyHttp) -> None:
    lake.put(DAY_1, "a.csv", csv(order(1)))
    lake.put(DAY_1, "b.csv", csv(order(2)))
    door.answer(lambda request: request.path.partition("?")[0].endswith("/a.csv"), BUSY, times=ALWAYS)
    receipt = lake.load(services=through(door, lake))
    assert (receipt.exit_code, receipt.objects["read"], receipt.objects["deferred"]) == (3, 1, 1)
    assert set(lake.amounts()) == {2}
    door.clear()
    assert lake.load(services=through(door, lake)).exit_code == 0
    assert set(lake.amounts()) == {1, 2}


@pytest.mark.parametrize(("status", "code", "exit_code"), [(403, "AccessDenied", 2), (503, "SlowDown", 3)])
def test_d16_a_second_page_that_s3_does_not_give_is_no_end(
    lake: Lake, door: FaultyHttp, status: int, code: str, exit_code: int
) -> None:
    """The real listing has one page for a thousand keys: here S3 is asked for pages of one."""
    lake.put(DAY_1, "a.csv", csv(order(1)))
    assert lake.load().exit_code == 0
    lake.put(DAY_1, "b.csv", csv(order(2)))

    def page_by_page(request: Request, forward: Forward) -> Reply:
        if "list-type" not in request.path:
            return forward(request)
        if "continuation-token" in request.path:
            return refusal(status, code)
        answer = forward(request)
        more = b"<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
        return Reply(answer.status, answer.headers, answer.body.replace(b"<IsTruncated>false</IsTruncated>", more))

    with FaultyHttp(lake.stack.stack.s3_endpoint, between=page_by_page, signed=True).running() as pages:
        receipt = lake.load(services=through(pages, lake))
    assert (receipt.state, receipt.exit_code) == (State.FAILED, exit_code), receipt.error
    assert code in receipt.error
    assert (lake.version(), set(lake.amounts())) == (1, {1})


def test_r31_an_object_replaced_between_two_ranged_reads_is_read_whole(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first range is of the old version; what the table gets is of the new one alone."""
    monkeypatch.setattr(s3, "_SPAN", 10_000)
    monkeypatch.setattr(staging, "SMALL", 0)
    old, new = (csv(*(order(key, amount) for key in range(2000))) for amount in ("1.00", "2.00"))
    lake.put(DAY_1, "a.csv", old)
    ranges: list[str] = []
    one_by_one = Lock()

    def replaced_after_one(request: Request, forward: Forward) -> Reply:
        if request.method != "GET" or not request.path.partition("?")[0].endswith("/a.csv"):
            return forward(request)
        with one_by_one:
            ranges.append({name.lower(): value for name, value in request.headers.items()}.get("range", ""))
            reply = forward(request)
            if len(ranges) == 1:
                lake.put(DAY_1, "a.csv", new)
            return reply

    with FaultyHttp(lake.stack.stack.s3_endpoint, between=replaced_after_one, signed=True).running() as between:
        receipt = lake.load(services=through(between, lake))
    assert all(ranges) and len(ranges) > 2
    assert receipt.exit_code == 0, receipt.error
    assert set(lake.amounts().values()) == {"2.00"} and len(lake.amounts()) == 2000
    assert lake.load().state is State.NOTHING_TO_DO
