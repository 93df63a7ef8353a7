from __future__ import annotations

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakehouse.bookmark import LOAD, RULINGS
from lakehouse.declaration import Declaration
from lakehouse.model import Bookmark, Decision, LandingObject, Mode, Plan, Window
from lakehouse.plan import batch_id_for, make_plan
from lakehouse.state import load_bookmark, walk
from tests.landing_values import START, MemoryStore, declared, manifest_of, outcome, publish
from tests.plan_model import DATA_KEYS, KEYS, READY, Ask, PrefixModel, Stored

SOURCE = "s3://landing/in/"
WRITES = ["upsert", "snapshot", "replace_partition", "append"]
DATES = st.one_of(st.none(), st.none(), st.sampled_from(sorted(set(DATA_KEYS.values()))))

asks = st.builds(
    Ask,
    mode=st.sampled_from(["incremental", "incremental", "incremental", "full", "no-advance"]),
    first=DATES,
    last=DATES,
    settle=st.sampled_from([0, 0, 3]),
    max_files=st.sampled_from([None, 1, 2]),
    max_bytes=st.sampled_from([None, 4, 9]),
    delimiter=st.sampled_from([",", ",", ";"]),
    write=st.sampled_from(WRITES),
    ready=st.sampled_from(["", "", *READY]),
)


def declaration_of(ask: Ask) -> Declaration:
    bounds = {"settle_seconds": ask.settle, "max_files": ask.max_files, "max_bytes": ask.max_bytes}
    ready = {ask.ready: READY[ask.ready]} if ask.ready else None
    format = {"type": "csv", "delimiter": ask.delimiter}
    return declared(write=ask.write, source={"format": format, "ready": ready, **bounds})


def everything(delimiter: str, write: str) -> Ask:
    return Ask("incremental", None, None, 0, None, None, delimiter, write)


HASHES = {(name, write): declaration_of(everything(name, write)).hash for name in ",;" for write in WRITES}


class PlanAgainstModel(RuleBasedStateMachine):
    """Random life of a prefix: what make_plan and advance say must be what the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.model = PrefixModel()
        self.store = MemoryStore()
        self.bookmark = Bookmark()
        self.batch_ids: set[str] = set()

    @initialize()
    def begin(self) -> None:
        self.model.clock = 100

    @rule(
        objects=st.dictionaries(
            st.sampled_from(KEYS),
            st.tuples(st.sampled_from("AB"), st.sampled_from([0, 1, 3, 5, 5, 20]), st.integers(0, 8)),
            min_size=1,
            max_size=6,
        )
    )
    def put(self, objects: dict[str, tuple[str, int, int]]) -> None:
        """New objects or overwritten ones (A -> B -> A too), with a time of now or, for slow uploads, before."""
        for key, (etag, size, late) in objects.items():
            self.model.stored[key] = Stored(f"{etag}{size}", size, self.model.clock - late)

    @precondition(lambda self: self.model.stored)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        del self.model.stored[data.draw(st.sampled_from(sorted(self.model.stored)))]

    @rule(seconds=st.integers(0, 6))
    def wait(self, seconds: int) -> None:
        self.model.clock += seconds

    @rule(ask=asks, bad=st.sets(st.sampled_from(sorted(DATA_KEYS))), crash_after=st.integers(0, 4))
    def load(self, ask: Ask, bad: set[str], crash_after: int) -> None:
        """A load that may end after some of its batches."""
        plan = self.plan(ask)
        self.check_plan(plan, ask)
        for batch in plan.batches[:crash_after]:
            keys = [key_of(item.object) for item in batch]
            self.publish(plan, keys, bad, ask)

    @rule(write=st.sampled_from(WRITES))
    def load_everything(self, write: str) -> None:
        """A load without bounds leaves nothing behind, and a second one has nothing to do."""
        ask = everything(",", write)
        for batch in (plan := self.plan(ask)).batches:
            self.publish(plan, [key_of(item.object) for item in batch], set(), ask)
        assert self.plan(ask).batches == ()

    @precondition(lambda self: self.data_keys())
    @rule(data=st.data(), kind=st.sampled_from(sorted(RULINGS)))
    def decide(self, data: st.DataObject, kind: str) -> None:
        """An operator skips an object as it is, or wants it to be read (again)."""
        key = data.draw(st.sampled_from(self.data_keys()))
        (item,) = [item for item in self.listing() if key_of(item) == key]
        decided = outcome(item, RULINGS[kind], reason=kind, day=DATA_KEYS[key])
        self.bookmark = publish(self.store, self.bookmark, manifest_of(self.bookmark, [decided], kind=kind))
        self.model.rule(key, RULINGS[kind].value)

    @invariant()
    def seen_is_what_the_model_says(self) -> None:
        seen = {
            key_of(item.object): (item.object.etag, item.decision, item.declaration, item.bookmark_version)
            for item in self.bookmark.seen.values()
        }
        assert seen == {
            key: (
                item.etag,
                Decision.QUARANTINED if item.bad else Decision.CONSUMED,
                HASHES[item.declaration],
                item.version,
            )
            for key, item in self.model.seen.items()
        }
        assert self.bookmark.version == self.model.version
        rulings = {key_of(r.object): (r.object.etag, r.decision.value) for r in self.bookmark.rulings.values()}
        assert rulings == self.model.rulings

    def teardown(self) -> None:
        """What was written down says the same: the bookmark, and every version read, in its order."""
        assert load_bookmark(self.store, self.bookmark.head) == self.bookmark
        history = [
            (key_of(item.object), item.object.etag, manifest.bookmark_version)
            for manifest, _ in walk(self.store, self.bookmark.head)
            if manifest.kind == LOAD
            for item in reversed(manifest.objects)
        ]
        assert history[::-1] == self.model.reads

    def plan(self, ask: Ask) -> Plan:
        return make_plan(
            declaration=declaration_of(ask),
            bookmark=self.bookmark,
            listing=self.listing(),
            mode=Mode(ask.mode),
            window=Window(ask.first, ask.last),
            table_uuid="uuid",
            now=START + timedelta(seconds=self.model.clock),
        )

    def listing(self) -> list[LandingObject]:
        return [
            LandingObject(SOURCE + key, obj.etag, obj.size, START + timedelta(seconds=obj.modified))
            for key, obj in self.model.stored.items()
        ]

    def data_keys(self) -> list[str]:
        return sorted(DATA_KEYS.keys() & self.model.stored.keys())

    def check_plan(self, plan: Plan, ask: Ask) -> None:
        assert [key_of(item.object) for item in plan.decisions] == sorted(self.model.stored)
        assert {key_of(d.object): d.decision.value for d in plan.decisions} == self.model.classes(ask)
        assert all(item.reason for item in plan.decisions)
        assert [[key_of(item.object) for item in batch] for batch in plan.batches] == self.model.batches(ask)
        assert [uri.removeprefix(SOURCE) for uri in sorted(plan.missing)] == self.model.missing(ask)
        assert plan.newest_date == (self.model.newest(ask) if ask.write == "snapshot" else None)
        assert bool(plan.unfinished) == (ask.write == "snapshot" and self.model.unfinished(ask))
        assert bool(plan.batch_id) == bool(plan.batches)
        assert plan == self.plan(ask)

    def publish(self, plan: Plan, keys: list[str], bad: set[str], ask: Ask) -> None:
        """Commit one batch in the bookmark, the store and the model; its id must be a new one."""
        by_key = {key_of(item.object): item for item in plan.decisions}
        items = [by_key[key] for key in keys]
        batch = batch_id_for(plan, items, table_uuid="uuid", version=self.bookmark.version)
        assert batch not in self.batch_ids
        self.batch_ids.add(batch)
        outcomes = [
            outcome(
                item.object,
                Decision.QUARANTINED if key_of(item.object) in bad else Decision.CONSUMED,
                reason="broken" if key_of(item.object) in bad else "",
                day=item.landing_date,
            )
            for item in items
        ]
        manifest = manifest_of(
            self.bookmark,
            outcomes,
            mode=plan.mode,
            advance=plan.mode is not Mode.NO_ADVANCE,
            declaration=plan.declaration,
        )
        self.bookmark = publish(self.store, self.bookmark, manifest)
        self.model.commit(keys, bad, ask)


def key_of(obj: LandingObject) -> str:
    return obj.uri.removeprefix(SOURCE)


PlanAgainstModel.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
TestPlanAgainstModel = PlanAgainstModel.TestCase
