from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakehouse.bookmark import RELOAD, RULINGS, advance, checkpoint_after
from lakehouse.model import Bookmark, Checkpoint, Decision, Glance, Manifest, Seen, SeenObject
from lakehouse.seen_parts import StoredParts
from lakehouse.state import load_bookmark, write_checkpoint, write_manifest
from tests.landing_values import MemoryStore, landed, manifest_of, outcome

MOST = 3
FIRST = date(2026, 8, 30)
NAMES = [f"day={FIRST + timedelta(days=n // 4)}/{n % 4}é.csv" for n in range(24)] + ["😀.csv", "a.csv", "zz.csv"]
DAYS = {name: date.fromisoformat(name[4:14]) if name.startswith("day=") else None for name in NAMES}

batches = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.sampled_from("ABC"), st.booleans(), st.booleans()), max_size=6
)


class SeenAgainstModel(RuleBasedStateMachine):
    """Random manifests and checkpoints in small parts: what is seen must be what a plain dict says."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.bookmark = Bookmark()
        self.seen: dict[str, SeenObject] = {}
        self.paused: dict[str, SeenObject] = {}
        self.history: list[tuple[Bookmark, dict[str, SeenObject]]] = []

    @rule(objects=batches, reads_on=st.booleans(), checkpoint=st.booleans())
    def batch(self, objects: dict[str, tuple[str, bool, bool]], reads_on: bool, checkpoint: bool) -> None:
        """A batch, advancing or not; some objects are quarantined, some have another date than their name says."""
        outcomes = [
            outcome(
                landed(name, etag, at=self.bookmark.version),
                Decision.QUARANTINED if bad else Decision.CONSUMED,
                day=FIRST if moved else DAYS[name],
            )
            for name, (etag, bad, moved) in objects.items()
        ]
        self.publish(manifest_of(self.bookmark, outcomes, advance=reads_on), checkpoint=checkpoint)
        for one in outcomes:
            uri = one.object.uri
            known = SeenObject(
                one.object,
                one.landing_date,
                one.decision if reads_on or one.decision is Decision.QUARANTINED else Decision.DEFERRED,
                "",
                f"batch{self.bookmark.version}",
                self.bookmark.version,
                "d1",
                one.first_seen,
            )
            (self.seen if reads_on else self.paused)[uri] = known
            if reads_on:
                self.paused.pop(uri, None)

    @rule(name=st.sampled_from(NAMES), checkpoint=st.booleans())
    def decide(self, name: str, checkpoint: bool) -> None:
        decided = [outcome(landed(name), RULINGS[RELOAD])]
        self.publish(manifest_of(self.bookmark, decided, kind=RELOAD), checkpoint=checkpoint)

    @rule()
    def read_back(self) -> None:
        found = load_bookmark(self.store, self.bookmark.head)
        assert found == self.bookmark
        self.bookmark = found

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        """An operator's change goes back to what was known: the parts of then are referred to again."""
        older, seen = data.draw(st.sampled_from(self.history))
        known = Checkpoint(older.seen, self.bookmark.rulings, self.bookmark.paused)
        manifest = manifest_of(self.bookmark, kind="fence", advance=False)
        written = write_checkpoint(self.store, known, folder=f"{manifest.bookmark_version}/", most=MOST)
        manifest = replace(manifest, checkpoint=written)
        head = write_manifest(self.store, manifest, folder=f"{manifest.bookmark_version}/")
        self.bookmark = load_bookmark(self.store, head)
        self.seen = dict(seen)

    @invariant()
    def it_is_what_the_model_says(self) -> None:
        for seen, model in ((self.bookmark.seen, self.seen), (self.bookmark.paused, self.paused)):
            assert [*seen.stream()] == [*seen.values()] == [model[uri] for uri in sorted(model)]
            assert (len(seen), bool(seen), [*seen]) == (len(model), bool(model), sorted(model))
            uris = [landed(name).uri for name in NAMES]
            assert seen.lookup(uris) == model
            assert seen.glances(uris) == {uri: Glance.at(item) for uri, item in model.items()}
            for name in NAMES[::5]:
                assert seen.get(landed(name).uri) == model.get(landed(name).uri)

    @invariant()
    def dates_and_counts_are_what_the_model_says(self) -> None:
        ordered = [self.seen[uri] for uri in sorted(self.seen)]
        for days in ({FIRST}, {None}, {FIRST + timedelta(days=2), FIRST + timedelta(days=4), None}):
            assert [*self.bookmark.seen.of_dates(days)] == [s for s in ordered if s.landing_date in days]
        day = FIRST + timedelta(days=2)
        later = [s for s in ordered if s.landing_date and s.landing_date > day]
        assert [*self.bookmark.seen.after(day)] == later
        tallies = self.bookmark.seen.tallies()
        counts = Counter((s.landing_date, s.decision) for s in ordered)
        assert {key: tally.objects for key, tally in tallies.items()} == counts
        assert all(
            tally.newest == max(s.object.last_modified for s in ordered if (s.landing_date, s.decision) == key)
            for key, tally in tallies.items()
        )

    @invariant()
    def versions_differ_as_the_model_says(self) -> None:
        for older, seen in self.history[-1:] + self.history[:1]:
            found = [*older.seen.differences(self.bookmark.seen)]
            uris = sorted(seen.keys() | self.seen.keys())
            pairs = ((uri, seen.get(uri), self.seen.get(uri)) for uri in uris)
            assert found == [pair for pair in pairs if pair[1] != pair[2]]

    def publish(self, manifest: Manifest, *, checkpoint: bool) -> None:
        self.history.append((self.bookmark, dict(self.seen)))
        folder = f"{manifest.bookmark_version}/"
        if checkpoint:
            known = checkpoint_after(self.bookmark, manifest)
            before = {*self.store.objects}
            written = write_checkpoint(self.store, known, folder=folder, most=MOST)
            manifest = replace(manifest, checkpoint=written)
            self.check_parts(known.seen, {*self.store.objects} - before, folder)
        head = write_manifest(self.store, manifest, folder=folder)
        after = advance(self.bookmark, manifest, head)
        self.bookmark = load_bookmark(self.store, head) if checkpoint else after
        assert self.bookmark == after

    def check_parts(self, known: object, written: set[str], folder: str) -> None:
        """No more is written than the changes touch, and never over what is there."""
        assert isinstance(known, Seen)
        assert all(key.startswith(folder) for key in written)
        if isinstance(known.store, StoredParts) and not known.changes:
            assert not any("/seen-" in key for key in written)


SeenAgainstModel.TestCase.settings = settings(max_examples=15, stateful_step_count=16)
TestSeenAgainstModel = SeenAgainstModel.TestCase
