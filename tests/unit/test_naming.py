from __future__ import annotations

import pytest

from lakehouse import naming


@pytest.mark.parametrize("context", ["orders", "orders.v2-a_b"])
def test_a_context_is_read_back_from_the_names_that_hold_it(context: str) -> None:
    assert naming.tagged_context(naming.tag(context)) == context
    assert naming.published_context(naming.published_marker(context)) == context


def test_other_names_hold_no_context() -> None:
    assert naming.tagged_context("main") is None and naming.tagged_context("orders") is None
    assert naming.published_context(naming.accepted_marker("orders", "")) is None
    assert naming.published_context(naming.attempt_record("a")) is None


def test_an_answer_is_about_a_context_or_about_one_folder_of_it() -> None:
    folders = ("", "s3://landing/a/", "s3://landing/b/")
    assert len({naming.accepted_marker(context, uri) for context in ("x", "y") for uri in folders}) == 6
