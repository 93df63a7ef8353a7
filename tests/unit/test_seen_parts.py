"""What is read and written of a set of objects in parts; that it is the right set is held against a plain dict in
`tests.property.test_seen_model`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

import pytest

from lakehouse.bookmark import MOST_CHANGED, changed_since, narrowed, needs_checkpoint
from lakehouse.errors import DataError
from lakehouse.model import Bookmark, Checkpoint, Decision, Mode, Plan, Reference, Seen, SeenObject, Window
from lakehouse.plan import make_plan
from lakehouse.seen_parts import StoredParts
from lakehouse.state import read_checkpoint, write_checkpoint
from tests.landing_values import START, MemoryStore, declared, landed

FIRST = date(2026, 9, 1)
MOST = 10
HASH = declared().hash


def seen(number: int, etag: str = "A", day: date | None = None) -> SeenObject:
    """Five objects a day."""
    day = day or FIRST + timedelta(days=number // 5)
    name = f"day={FIRST + timedelta(days=number // 5)}/{number % 5}.csv"
    return SeenObject(landed(name, etag), day, Decision.CONSUMED, "", "batch1", 1, HASH, START)


def mapping(items: Iterable[SeenObject]) -> dict[str, SeenObject]:
    return {item.object.uri: item for item in items}


def stored(store: MemoryStore, count: int = 100) -> Seen:
    """A checkpoint of so many objects in parts of ten: two days each."""
    checkpoint = Checkpoint(mapping(map(seen, range(count))))
    return Seen.of(read_checkpoint(store, write_checkpoint(store, checkpoint, folder="1/", most=MOST)).seen)


def rewrite(store: MemoryStore, items: Seen, folder: str = "2/") -> tuple[Seen, list[str]]:
    """The set read back from its next checkpoint, and the parts that were written for that."""
    before = {*store.objects}
    reference = write_checkpoint(store, Checkpoint(items), folder=folder, most=MOST)
    written = sorted(key for key in {*store.objects} - before if "seen" in key)
    return Seen.of(read_checkpoint(store, reference).seen), written


def sizes(items: Seen) -> list[int]:
    assert isinstance(items.store, StoredParts)
    return [part.objects for part in items.store.parts]


def plan_of(items: Seen, listing: Iterable[SeenObject], *, write: str = "upsert", ready: int | None = None) -> Plan:
    table = declared(write=write, source={"ready": {"objects": ready}} if ready else {})
    return make_plan(
        declaration=table,
        bookmark=Bookmark(version=1, seen=items),
        listing=[item.object for item in listing],
        mode=Mode.INCREMENTAL,
        window=Window(),
        table_uuid="uuid",
        now=START,
    )


def test_a_plan_reads_the_parts_that_its_listing_touches_and_all_at_once() -> None:
    store = MemoryStore()
    items = stored(store)
    store.reads.clear()
    plan = plan_of(items, map(seen, [3, 41, 42, 99, 100]))
    assert [d.decision for d in plan.decisions] == [Decision.CONSUMED] * 4 + [Decision.PLANNED]
    assert store.reads == [3]
    plan_of(items, [seen(200)])
    assert store.reads == [3]


@pytest.mark.parametrize(
    ("write", "ready", "listed", "reads"),
    [
        ("replace_partition", None, [seen(41, "B"), seen(99)], [2]),
        ("snapshot", None, [seen(98), seen(99)], [1]),
        ("upsert", 2, [seen(41), seen(98), seen(99)], [2]),
    ],
)
def test_whole_dates_read_the_parts_of_these_dates_and_none_twice(
    write: str, ready: int | None, listed: list[SeenObject], reads: list[int]
) -> None:
    store = MemoryStore()
    items = stored(store)
    store.reads.clear()
    plan = plan_of(items, listed, write=write, ready=ready)
    assert store.reads == reads
    if write == "replace_partition":
        assert [uri.rpartition("/")[2] for uri in plan.missing] == ["0.csv", "2.csv", "3.csv", "4.csv"]


def test_an_object_is_found_whatever_date_the_declaration_gives_it_now() -> None:
    store = MemoryStore()
    old = [seen(number, day=date(2020, 1, 1)) for number in range(40)]
    items = Seen.of(
        read_checkpoint(store, write_checkpoint(store, Checkpoint(mapping(old)), folder="1/", most=MOST)).seen
    )
    assert {d.decision for d in plan_of(items, map(seen, range(40))).decisions} == {Decision.CONSUMED}


def test_a_checkpoint_writes_only_what_changes_touch() -> None:
    store = MemoryStore()
    items = stored(store)
    assert rewrite(store, items) == (items, [])
    after, written = rewrite(store, items.changed(mapping([seen(41, "B"), seen(99, "B")])), "3/")
    assert (len(written), sizes(after)) == (2, [10] * 10)
    assert after == items.changed(mapping([seen(41, "B"), seen(99, "B")]))
    gone = dict.fromkeys((seen(number).object.uri for number in range(10, 20)), None)
    less, written = rewrite(store, items.changed(gone), "4/")
    assert (written, sizes(less), len(less)) == ([], [10] * 9, 90)


def test_two_sets_differ_where_they_do_and_common_parts_are_not_read() -> None:
    store = MemoryStore()
    items = stored(store)
    gone = seen(55).object.uri
    changed = items.changed({**mapping([seen(41, "B"), seen(100)]), gone: None})
    expected = [
        (seen(41).object.uri, seen(41), seen(41, "B")),
        (gone, seen(55), None),
        (seen(100).object.uri, None, seen(100)),
    ]
    assert [*items.differences(changed)] == expected
    for after in (rewrite(store, changed, "3/")[0], Seen(mapping(changed.values()))):
        assert [*items.differences(after)] == expected
        assert [*after.differences(items)] == [(uri, new, old) for uri, old, new in expected]
    store.reads.clear()
    assert [*items.differences(items)] == []
    assert store.reads == []


def test_new_objects_at_the_end_fill_parts_and_others_split_them_evenly() -> None:
    store = MemoryStore()
    items = stored(store, 95)
    assert sizes(rewrite(store, items.changed(mapping(map(seen, range(95, 121)))))[0]) == [10] * 12 + [1]
    between = [SeenObject(landed(f"day={FIRST}/{n}x.csv"), FIRST, *_rest()) for n in range(5)]
    after, written = rewrite(store, items.changed(mapping(between)), "3/")
    assert (sizes(after), len(written)) == ([8, 7, *[10] * 8, 5], 2)


def _rest() -> tuple[object, ...]:
    return (Decision.CONSUMED, "", "batch1", 1, HASH, START)


def test_an_altered_or_missing_part_is_named_by_whoever_needs_it() -> None:
    store = MemoryStore()
    items = stored(store)
    store.objects["1/seen-00004.parquet"] += b"x"
    del store.objects["1/seen-00006.parquet"]
    assert len(items) == 100
    assert seen(0).object.uri in items
    with pytest.raises(DataError, match=r"altered: uri=s3://state/1/seen-00004.parquet"):
        items.lookup([seen(41).object.uri])
    with pytest.raises(DataError, match=r"missing: uri=s3://state/1/seen-00006.parquet"):
        items.get(seen(61).object.uri)
    with pytest.raises(DataError, match="altered"):
        rewrite(store, items.changed(mapping([seen(41, "B")])))
    rewrite(store, items.changed(mapping([seen(99, "B")])), "3/")


def test_a_part_with_another_number_of_objects_than_the_index_says_is_refused() -> None:
    store = MemoryStore()
    items = stored(store, 10)
    assert isinstance(items.store, StoredParts)
    (part,) = items.store.parts
    (other,) = stored(MemoryStore(), 9).store.parts  # type: ignore[attr-defined]
    short = StoredParts((part,), lambda _: [_bytes(other.file)])
    with pytest.raises(DataError, match="objects=9 recorded=10"):
        short.lookup([part.first])


def _bytes(_: Reference) -> bytes:
    store = MemoryStore()
    stored(store, 9)
    return store.objects["1/seen-00000.parquet"]


def test_a_narrowed_bookmark_reads_nothing_more() -> None:
    store = MemoryStore()
    known = narrowed(Bookmark(seen=stored(store)), [seen(1).object.uri, seen(99).object.uri, "s3://landing/x"])
    store.reads.clear()
    assert [uri in known.seen for uri in (seen(1).object.uri, seen(2).object.uri)] == [True, False]
    assert store.reads == []


def test_names_around_an_object_come_from_one_part() -> None:
    store = MemoryStore()
    items = stored(store).changed(mapping([seen(200)]))
    store.reads.clear()
    near = items.around(seen(41).object.uri + "x", 4)
    assert near == [seen(number).object.uri for number in (40, 41, 42, 43)]
    assert store.reads == [1]


def test_many_changes_bring_the_next_checkpoint_forward() -> None:
    assert not needs_checkpoint(7, changed=MOST_CHANGED)
    assert needs_checkpoint(7, changed=MOST_CHANGED + 1)
    assert changed_since(Bookmark(seen=Seen(mapping([seen(1)])), paused=Seen(mapping([seen(2)])))) == 2
