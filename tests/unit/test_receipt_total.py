"""The receipt of a table of several sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakehouse.declaration import Declaration
from lakehouse.errors import Unavailable
from lakehouse.ingest import LoadRequest
from lakehouse.model import State
from lakehouse.receipt import failed_receipt, receipt_json
from lakehouse.receipt_total import total, worst_exit_code
from tests.landing_values import declared
from tests.orchestration_lake import failed, receipt

EMPTY = receipt(declared(), LoadRequest(), [], 0)


@pytest.mark.parametrize(
    ("codes", "worst"),
    [((0, 0), 0), ((0, 3), 3), ((3, 1), 1), ((1, 2), 2), ((2, 4), 4), ((4, 70), 70), ((3, 0, 1), 1)],
)
def test_g08_the_exit_code_is_that_of_the_source_that_needs_most(codes: tuple[int, ...], worst: int) -> None:
    parts = [replace(EMPTY, context=f"s{n}", exit_code=code, error=f"e{code}") for n, code in enumerate(codes)]
    assert total(declared(), parts).exit_code == worst_exit_code(codes) == worst
    assert worst_exit_code([]) == 0


def test_g08_the_state_is_that_of_the_source_that_ended_worst() -> None:
    good = replace(EMPTY, context="a", state=State.COMMITTED)
    quarantined = replace(good, context="b", exit_code=1, error="quarantined: x")
    blocked = replace(failed(declared(), State.BLOCKED, 1), context="c")
    found = total(declared(), [good, quarantined, blocked])
    assert (found.state, found.next) == (State.BLOCKED, "lakehouse diagnose")
    assert found.error == "b: quarantined: x; c: it went wrong: value=1"
    assert total(declared(), [EMPTY, good]).state is State.COMMITTED
    assert total(declared(), [EMPTY, EMPTY]).state is State.NOTHING_TO_DO
    assert total(declared(), [good]) is good


def test_g08_one_source_keeps_the_document_and_several_add_theirs() -> None:
    assert "sources" not in receipt_json(EMPTY)
    body = receipt_json(total(declared(), [replace(EMPTY, context="a"), replace(EMPTY, context="b")]))
    assert body["bookmark_version"] is None and body["context"] == "a, b"
    assert [part["context"] for part in body["sources"]] == ["a", "b"]
    assert set(body) - {"sources"} == set(receipt_json(EMPTY))


def test_g08_a_load_that_cannot_begin_fails_for_every_source() -> None:
    source = {"format": {"type": "csv"}, "partition": "day=%Y-%m-%d"}
    table = Declaration.model_validate(
        {
            "table": "analytics.orders",
            "sources": [{**source, "uri": f"s3://landing/{name}/", "bookmark": name} for name in ("a", "b")],
            "columns": {"id": "bigint", "at": "timestamptz"},
            "key": ["id"],
            "order_by": ["at"],
            "start_date": "2026-08-30",
        }
    )
    found = failed_receipt(table, "run", Unavailable("nobody answers"))
    assert (found.exit_code, found.state, [part.context for part in found.sources]) == (3, State.FAILED, ["a", "b"])
