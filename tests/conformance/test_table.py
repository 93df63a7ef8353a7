from __future__ import annotations

from tests.conformance.page import PAGE, page
from tests.conformance.table import NUMBERS, RULES
from tests.named_tests import ROOT, exists


def test_the_page_is_that_of_the_table() -> None:
    assert (ROOT / PAGE).read_text() == page(), "write it again: python -m tests.conformance.page"


def test_every_rule_has_one_row() -> None:
    assert [rule.number for rule in RULES] == [*NUMBERS]
    assert [rule.number for rule in RULES] == sorted(rule.number for rule in RULES)


def test_every_rule_has_a_test_that_is_named_after_it_or_says_what_it_waits_for() -> None:
    for rule in RULES:
        assert bool(rule.tests) is not bool(rule.waits), rule.id
        for named in rule.tests:
            assert exists(named), named
            assert f"_g{rule.number:02}_" in named, named
