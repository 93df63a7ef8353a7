"""What a load reads, on the real stack: the latest consumed version of every key decides, and no time of anybody.

Rules of the replaced system (G) and field cases of discovery (D) carry their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import lakehouse.ingest
from lakehouse.audit.object_history import explain_object
from lakehouse.ingest import LoadRequest, plan_load
from lakehouse.ledger import FILES
from lakehouse.model import Decision, Plan, Receipt, State, Window
from lakehouse.services import Services
from lakehouse.storage import open_root
from tests.lake import DAY_1, DAY_2, DAY_3, Lake, SaidBy, csv, dated, order, uris
from tests.services.scripted_s3 import QUICK, Answer, Stub, page, refusal, scripted_s3

T0 = datetime(2026, 9, 1, 10, tzinfo=UTC)
FOLDER = f"input_date={DAY_1}"


@pytest.fixture
def lake(stack: Any, tmp_path: Path) -> Lake:
    return Lake(stack, tmp_path)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A landing bucket whose answers the test writes; it is asked once. obstore would take the endpoint of the process
    for that of the services."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setattr(lakehouse.ingest, "open_root", partial(open_root, patience=QUICK))
    with scripted_s3() as served:
        yield served


def with_landing(lake: Lake, stub: Stub) -> Services:
    """The lake's services; landing objects come from the scripted S3, everything else is real."""
    return lake.services(env={**lake.env, "AWS_ENDPOINT_URL_S3": stub.url})


def loaded(lake: Lake, *names: str) -> Receipt:
    """Land one order per file, numbered as their names end, and load."""
    for name in names:
        lake.put(DAY_1, name, csv(order(name.removesuffix(".csv")[-1])))
    receipt = lake.load()
    assert receipt.exit_code == 0, receipt.error
    return receipt


def reasons(plan: Plan) -> dict[str, tuple[Decision, str]]:
    return {d.object.uri.rpartition("/")[2]: (d.decision, d.reason) for d in plan.decisions}


def test_g16_an_object_older_than_the_last_load_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, T0 < mtime: what is not younger than the last run is not looked at."""
    loaded(lake, "f1.csv")
    lake.put(DAY_1, "f2.csv", csv(order(2)))
    dated(monkeypatch, {"f2.csv": datetime(2020, 1, 1, tzinfo=UTC)})
    assert uris(lake.plan()) == ["f2.csv"]
    assert lake.load().rows.inserted == 1
    assert lake.plan().batches == ()


def test_g17_an_object_of_the_future_is_read_now_and_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, mtime ≤ T1: what a fast clock has dated past the run's start waits for the next."""
    dated(monkeypatch, {"f1.csv": datetime(2099, 1, 1, tzinfo=UTC)})
    assert loaded(lake, "f1.csv").rows.inserted == 1
    assert loaded(lake, "f2.csv").objects["read"] == 1
    assert lake.load().state is State.NOTHING_TO_DO


def test_g18_d01_a_second_object_of_the_same_second_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    dated(monkeypatch, {"f1.csv": T0, "f2.csv": T0})
    loaded(lake, "f1.csv")
    lake.put(DAY_1, "f2.csv", csv(order(2)))
    assert uris(lake.plan()) == ["f2.csv"]
    assert loaded(lake).rows.inserted == 1
    assert uris(lake.plan()) == []


def test_g19_g23_d06_max_files_bounds_a_batch_in_the_order_of_time_and_key(
    stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is over the bound is the load's next batch: deferred, never skipped."""
    lake = Lake(stack, tmp_path, source="max_files: 2")
    times = {"f1.csv": 5, "f2.csv": 3, "f4.csv": 4, "f3.csv": 4}
    dated(monkeypatch, {name: T0 + timedelta(seconds=at) for name, at in times.items()})
    for number in (1, 2, 3, 4):
        lake.put(DAY_1, f"f{number}.csv", csv(order(number)))
    assert [[d.object.uri[-6:] for d in batch] for batch in lake.plan().batches] == [
        ["f2.csv", "f3.csv"],
        ["f4.csv", "f1.csv"],
    ]
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse.batch.run.commit_batch", dies_at_its_second_call())
        with pytest.raises(RuntimeError):
            lake.load()
    assert (set(lake.amounts()), uris(lake.plan())) == ({2, 3}, ["f4.csv", "f1.csv"])
    assert [b.objects for b in lake.load().batches] == [2]
    assert sorted(f["uri"][-6:] for f in lake.ledger(FILES)) == sorted(times)


def dies_at_its_second_call() -> Any:
    commit, calls = lakehouse.batch.run.commit_batch, []

    def commit_once(*rest: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("the process dies")
        return commit(*rest, **named)

    return commit_once


def test_g23_max_bytes_bounds_a_batch_and_loses_no_large_object(
    stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = csv(order(1)), csv(*(order(n) for n in range(10, 20)))
    lake = Lake(stack, tmp_path, source=f"max_bytes: {2 * len(small)}")
    names = ["f1.csv", "f2.csv", "large.csv", "f3.csv"]
    dated(monkeypatch, {name: T0 + timedelta(seconds=at) for at, name in enumerate(names)})
    for name in names:
        lake.put(DAY_1, name, large if name == "large.csv" else csv(order(name[1])))
    assert [b.objects for b in lake.load().batches] == [2, 1, 1]
    assert len(lake.amounts()) == 13 and lake.differences() == []


def test_g20_d09_an_object_copied_onto_itself_is_the_version_that_was_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lake, "f1.csv")
    where = {"Bucket": "landing", "Key": f"{lake.name}/{FOLDER}/f1.csv"}
    lake.stack.s3.copy_object(**where, CopySource=where, MetadataDirective="REPLACE", Metadata={"touched": "1"})
    dated(monkeypatch, {"f1.csv": datetime(2099, 1, 1, tzinfo=UTC)})
    assert reasons(lake.plan())["f1.csv"][0] is Decision.CONSUMED
    assert lake.load().state is State.NOTHING_TO_DO


def test_g21_d02_a_slow_multipart_upload_is_read_when_it_becomes_visible(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 dates it back to the start of the upload, which here is long before the last load."""
    s3, where = lake.stack.s3, {"Bucket": "landing", "Key": f"{lake.name}/{FOLDER}/big2.csv"}
    upload = s3.create_multipart_upload(**where)["UploadId"]
    part = s3.upload_part(**where, UploadId=upload, PartNumber=1, Body=csv(order(2)))
    assert loaded(lake, "small1.csv").objects["read"] == 1
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=parts)
    dated(monkeypatch, {"big2.csv": T0 - timedelta(days=3)})
    assert uris(lake.plan()) == ["big2.csv"]
    assert lake.load().rows.inserted == 1


def test_g22_d08_an_overwritten_object_is_a_new_version_linked_to_the_old_one(lake: Lake) -> None:
    uri = lake.put(DAY_1, "f.csv", csv(order(1, "10.00"), order(2)))
    lake.load()
    lake.put(DAY_1, "f.csv", csv(order(1, "11.00", 1), order(3, "5.00")))
    decision, reason = reasons(lake.plan())["f.csv"]
    assert (decision, reason[:33]) == (Decision.PLANNED, "new version of a consumed object:")
    receipt = lake.load()
    assert (receipt.rows.updated, receipt.rows.inserted, receipt.rows.vanished) == (1, 1, 0)
    assert lake.amounts() == {1: "11.00", 2: "1.00", 3: "5.00"}, "nothing is retracted that was not asked for"
    newest, oldest = explain_object(lake.declaration, uri, lake.services()).events
    assert newest.supersedes == oldest.etag != newest.etag
    assert len({f["etag"] for f in lake.ledger(FILES)}) == 2


def test_g22_keys_that_vanished_are_retracted_where_that_is_declared(stack: Any, tmp_path: Path) -> None:
    lake = Lake(stack, tmp_path, source="on_overwrite: retract")
    lake.put(DAY_1, "f.csv", csv(order(1), order(2)))
    lake.load()
    lake.put(DAY_1, "f.csv", csv(order(1)))
    assert (lake.load().rows.vanished, lake.amounts()) == (1, {1: "1.00"})


def test_g25_what_a_window_leaves_out_is_listed_with_the_command_that_loads_it(lake: Lake, said_by: SaidBy) -> None:
    early = date(2026, 8, 1)
    for number, day in enumerate((DAY_1, DAY_2, DAY_3, early), start=1):
        lake.put(day, f"f{number}.csv", csv(order(number)))
    request = LoadRequest(window=Window(DAY_2, None))
    plan = plan_load(lake.declaration, request, lake.services())
    command = f"lakehouse load {lake.table} --from {DAY_1} --to {DAY_1}"
    assert reasons(plan)["f1.csv"] == (Decision.OUTSIDE_WINDOW, f"late, outside window {DAY_2}..: {command}")
    decision, reason = reasons(plan)["f4.csv"]
    assert (decision, f"declare start_date: {early}, then lakehouse load" in reason) == (Decision.OUTSIDE_WINDOW, True)
    assert lake.load(day=DAY_2).rows.inserted == 1
    code, receipt = said_by(lake, *command.split()[1:], "--json")
    assert (code, receipt["rows"]["inserted"], set(lake.amounts())) == (0, 1, {1, 2})


def test_d03_a_rewritten_or_deleted_object_hides_no_other(lake: Lake) -> None:
    loaded(lake, "a1.csv")
    lake.put(DAY_1, "b2.csv", csv(order(2)))
    lake.put(DAY_1, "c3.csv", csv(order(3)))
    lake.put(DAY_1, "a1.csv", csv(order(1, "4.00", 4)))
    assert sorted(uris(lake.plan())) == ["a1.csv", "b2.csv", "c3.csv"]
    lake.stack.s3.delete_object(Bucket="landing", Key=f"{lake.name}/{FOLDER}/a1.csv")
    assert uris(lake.plan()) == ["b2.csv", "c3.csv"]
    assert lake.load().rows.inserted == 2


def test_d07_what_was_read_is_never_forgotten(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The set is in the manifests, and from time to time in a checkpoint."""
    monkeypatch.setattr("lakehouse.bookmark.CHECKPOINT_EVERY", 2)
    for name in ("f1.csv", "f2.csv", "f3.csv"):
        loaded(lake, name)
    assert uris(lake.plan()) == []
    lake.put(DAY_1, "f0.csv", csv(order(0)))
    lake.put(date(2026, 8, 1), "old.csv", csv(order(9)))
    dated(monkeypatch, {"f0.csv": datetime(2020, 1, 1, tzinfo=UTC)})
    assert uris(lake.plan()) == ["f0.csv"]
    assert reasons(lake.plan())["old.csv"][0] is Decision.OUTSIDE_WINDOW


def test_d14_an_object_is_read_once_its_producer_has_finished(
    stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(stack, tmp_path, source="settle_seconds: 60")
    services = lake.services(now=lambda: T0)
    lake.put(DAY_1, "x.csv", csv(order(1)))
    lake.put(DAY_1, "y.csv.tmp", csv(order(2)))
    times = {"x.csv": T0 - timedelta(seconds=2), "y.csv.tmp": T0 - timedelta(seconds=2)}
    dated(monkeypatch, times)
    receipt = lake.load(services=services)
    assert (receipt.state, receipt.objects["deferred"], receipt.objects["ignored"]) == (State.NOTHING_TO_DO, 1, 1)
    lake.put(DAY_1, "x.csv", csv(order(1), order(3)))
    times["x.csv"] = T0 - timedelta(seconds=60)
    receipt = lake.load(services=services)
    assert (receipt.objects["read"], set(lake.amounts())) == (1, {1, 3})


def test_d15_keys_are_read_as_they_are(lake: Lake) -> None:
    names = ["a b.csv", "a+b.csv", "a%20b.csv", "sales[1].csv", "café.csv"]
    for number, name in enumerate(names):
        lake.put(DAY_1, name, csv(order(number, f"{number}.00")))
    assert lake.load().objects["read"] == 5
    assert lake.amounts() == {number: f"{number}.00" for number in range(5)}
    assert {f["uri"].rpartition("/")[2] for f in lake.ledger(FILES)} == set(names)
    assert {row["_source_file"].rpartition("/")[2] for row in lake.rows().values()} == set(names)


def test_d15_two_slashes_are_two(stack: Any, tmp_path: Path, stub: Stub) -> None:
    """The local S3 makes one of them, so a stub holds these objects."""
    lake = Lake(stack, tmp_path)
    lake.write_declaration(lake.declaration_text().replace('files: "*.csv"', 'files: "**.csv"'))
    bodies = {f"{lake.name}/{FOLDER}/a/b.csv": csv(order(1)), f"{lake.name}/{FOLDER}/a//b.csv": csv(order(2))}
    stub.script = serve(bodies)
    assert lake.load(services=with_landing(lake, stub)).objects["read"] == 2
    assert {f["uri"] for f in lake.ledger(FILES)} == {f"s3://landing/{key}" for key in bodies}


def serve(bodies: dict[str, bytes], *, archived: str = "") -> Any:
    """The script of an S3 with these objects; an archived one is listed and not given."""
    entries = [(key, len(body), "GLACIER" if key == archived else "STANDARD") for key, body in bodies.items()]

    def answer(method: str, path: str, query: dict[str, str]) -> Answer:
        if "list-type" in query:
            return page(entries)
        key = unquote(path.removeprefix("/landing/"))
        return refusal("InvalidObjectState", 403) if key == archived else Answer(body=bodies[key])

    return answer


@pytest.mark.parametrize(("code", "status", "exit_code"), [("AccessDenied", 403, 2), ("SlowDown", 503, 3)])
def test_d16_a_listing_that_fails_on_its_second_page_is_no_empty_one(
    lake: Lake, stub: Stub, code: str, status: int, exit_code: int
) -> None:
    loaded(lake, "f1.csv")
    first = page([(f"{lake.name}/{FOLDER}/f2.csv", 10, "STANDARD")], token="next")
    stub.script = lambda method, path, query: refusal(code, status) if "continuation-token" in query else first
    receipt = lake.load(services=with_landing(lake, stub))
    assert (receipt.state, receipt.exit_code, receipt.bookmark_version) == (State.FAILED, exit_code, None)
    assert f"code={code}" in receipt.error
    assert (lake.version(), lake.snapshots()) == (1, 1)


def test_d25_times_survive_to_the_microsecond(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 1, 5, 10, 11, 12, 345678, tzinfo=UTC)
    dated(monkeypatch, {"f1.csv": at})
    loaded(lake, "f1.csv")
    assert [f["last_modified"] for f in lake.ledger(FILES)] == [at]
    assert lake.plan().batches == ()


def test_d27_an_archived_object_stops_no_other(lake: Lake, stub: Stub) -> None:
    good, archived = (f"{lake.name}/{FOLDER}/{name}.csv" for name in ("good", "archived"))
    stub.script = serve({archived: csv(order(1)), good: csv(order(2))}, archived=archived)
    receipt = lake.load(services=with_landing(lake, stub))
    assert (receipt.state, receipt.exit_code, receipt.objects["quarantined"]) == (State.COMMITTED, 1, 1)
    assert "unreadable: archived" in receipt.error and set(lake.amounts()) == {2}
    told = {f["uri"]: f["decision"] for f in lake.ledger(FILES)}
    assert told == {f"s3://landing/{good}": "consumed", f"s3://landing/{archived}": "quarantined"}


def test_d28_every_page_of_many_objects_is_read(stack: Any, tmp_path: Path) -> None:
    """A page of S3 holds 1,000 keys."""
    lake = Lake(stack, tmp_path, source="max_files: 2000")
    with ThreadPoolExecutor(8) as pool:
        [*pool.map(lambda number: lake.put(DAY_1, f"{number:04}.csv", csv(order(number))), range(2500))]
    plan = lake.plan()
    assert (plan.count(Decision.PLANNED), [len(batch) for batch in plan.batches]) == (2500, [2000, 500])
    receipt = lake.load()
    assert ([b.objects for b in receipt.batches], receipt.exit_code) == ([2000, 500], 0), receipt.error
    assert (len(lake.ledger(FILES)), receipt.rows.inserted) == (2500, 2500)
