"""When a source may be read from its beginning (G9): bookmark and declaration decide, a marker remembers the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from lakehouse.acceptance import accept, accept_all, is_first, open_question
from lakehouse.bookmark import advance
from lakehouse.model import Bookmark, Decision, Reference, SeenObject
from lakehouse.position import Position
from lakehouse.services import Services
from lakehouse.target import look
from tests.landing_values import START, declared, landed, manifest_of

TARGET = look("analytics.orders", "orders", None)
OTHER = manifest_of(Bookmark())
SEEN = {
    obj.uri: SeenObject(obj, None, Decision.CONSUMED, "", "b", 1, "d", START)
    for obj in (landed("day=2026-08-30/a.csv"), landed("day=2026-08-31/b.csv"))
}


@dataclass
class State:
    objects: dict[str, bytes] = field(default_factory=dict)

    def create(self, key: str, data: bytes) -> bool:
        return self.objects.setdefault(key, data) is data

    def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.objects.get(key) for key in keys]


@pytest.fixture
def services() -> Services:
    return cast(Services, SimpleNamespace(state=State(), catalog_name="default"))


def test_g09_the_first_source_of_a_table_is_never_asked_about(services: Services) -> None:
    position = Position(TARGET, Bookmark())
    assert is_first(position) and open_question(declared(), position, services) is None


def test_g09_a_name_without_a_bookmark_beside_others_is_asked_about_once(services: Services) -> None:
    position = Position(TARGET, Bookmark(), others={"old": OTHER})
    question = open_question(declared(), position, services)
    assert question is not None and not is_first(position)
    assert question.text(3) == "no bookmark for orders; 3 objects would be re-read; the table has bookmark old"
    assert question.text(1).startswith("no bookmark for orders; 1 object would be re-read")
    assert "lakehouse bookmark rename analytics.orders old orders --reason TEXT" in question.next
    accept(declared(), position, question, services)
    assert open_question(declared(), position, services) is None
    assert open_question(declared(source={"bookmark": "third"}), position, services) is not None


def test_g09_a_bookmark_that_only_the_state_folder_knows_cannot_be_renamed(services: Services) -> None:
    question = open_question(declared(), Position(TARGET, Bookmark(), lives={"lost": ["uuid"]}), services)
    assert question is not None and "bookmark lost" in question.because and "rename" not in question.next


def test_g09_an_operators_change_alone_is_no_reading(services: Services) -> None:
    held = replace(Bookmark(), version=2)
    assert open_question(declared(), Position(TARGET, held, others={"old": OTHER}), services) is not None
    assert open_question(declared(), Position(TARGET, held), services) is None


@pytest.mark.parametrize(
    ("uri", "asks"),
    [
        ("s3://landing/in/", False),
        ("s3://landing/", False),
        ("s3://landing/in/day=2026-08-30/", False),
        ("s3://landing/in_b/", True),
        ("s3://other/in/", True),
    ],
)
def test_g09_a_folder_apart_from_the_one_that_was_read_is_asked_about(services: Services, uri: str, asks: bool) -> None:
    declaration = declared(source={"uri": uri})
    told = Bookmark(version=3, seen=SEEN, source_uri="s3://landing/in/")
    # older manifests do not say which folder they have read: their objects do
    for bookmark in (told, replace(told, source_uri="")):
        question = open_question(declaration, Position(TARGET, bookmark), services)
        assert (question is not None) is asks
        if question is not None:
            assert question.text(2).startswith(
                f"no bookmark for orders at {uri}; 2 objects would be re-read; bookmark "
            )
            accept(declaration, Position(TARGET, bookmark), question, services)
            assert open_question(declaration, Position(TARGET, bookmark), services) is None
            cast(State, services.state).objects.clear()


def test_g09_the_first_load_answers_for_all_that_is_declared(services: Services) -> None:
    accept_all(declared(), Position(TARGET, Bookmark()), services)
    assert open_question(declared(), Position(TARGET, Bookmark(), others={"old": OTHER}), services) is None


def test_g09_the_folder_that_was_read_is_that_of_the_newest_manifest() -> None:
    first = replace(manifest_of(Bookmark()), source_uri="s3://landing/a/")
    bookmark = advance(Bookmark(), first, Reference("s3://state/1", "x"))
    assert bookmark.source_uri == "s3://landing/a/"
    second = replace(manifest_of(bookmark), source_uri="s3://landing/b/")
    assert advance(bookmark, second, Reference("s3://state/2", "x")).source_uri == "s3://landing/b/"
