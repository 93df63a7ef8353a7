"""YAML 1.2 scalars, positions, duplicate keys and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declaration.problem import Position, Problem
from lakehouse.declaration.yaml_source import Tree, build_tree, compose


def tree(text: str, **env: str) -> Tree:
    nodes = compose(text, Path("defs.yaml"))
    assert isinstance(nodes, list)
    return build_tree(nodes[0], env)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("12:30", "12:30"),
        ("06", "06"),
        ("1_000", "1_000"),
        ("2026-08-30", "2026-08-30"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("3", 3),
        ("-0", 0),
        ("0x1F", 31),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", float("inf")),
        ('"3"', "3"),
        ("!!str 3", "3"),
        ("'{{ env.A }}/x'", "value/x"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    found = tree(f"a: {text}", A="value").value
    assert found == {"a": value}
    assert type(found["a"]) is type(value) or isinstance(value, str)


def test_nesting_up_to_the_bound() -> None:
    deep = "[" * 99 + "1" + "]" * 99
    assert str(tree(f"{deep}\n---\n{deep}").value) == deep


def test_positions_of_values_and_keys() -> None:
    found = tree("a: 1\nb:\n  - x\n  - c: 2\n")
    assert found.position(("b", 1, "c")) == Position(4, 8)
    assert found.position(("b", 1, "c"), at_key=True) == Position(4, 5)
    assert found.position(("b", 1, "absent")) == Position(4, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "duplicate key, first on line 1"),
        ("a: &x 1\nb: *x", "alias *x is not supported"),
        ("<<: {a: 1}", "merge key << is not supported"),
        ("a: !secret x", "tag !secret is not supported"),
        ("a: '{{ env.NOPE }}'", "environment variable NOPE is not set"),
        ("a: '{{ now() }}'", "only {{ env.NAME }} is replaced"),
        ("a: '{{ env.A }}{{'", "only {{ env.NAME }} is replaced"),
        ("a: {{ env.A }}", "put {{ env.NAME }} in quotes"),
        ("a: [bucket(16, id), b]", "'bucket(16' is cut off at the comma"),
        ("a: {type: decimal(12,2), required: true}", "'decimal(12' is cut off at the comma"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    findings = tree(text, A="x").findings
    assert len(findings) == 1
    assert message in findings[0].message


def test_the_environment_is_not_read_twice_and_never_shown() -> None:
    value = tree("a: '{{ env.A }}'", A="{{ env.B }}").value
    assert value == {"a": "{{ env.B }}"}
    assert repr(value) == "{'a': '{{ env.A }}'}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: [1\nc: 2", (3, 2)),
        ("a: 1\nb: x\x07", (2, 5)),
        ("a: {{ env.A }}/x", (1, 15)),
        ("a:\n\t- 1", (2, 1)),
        ("a: 1\nb: " + "[" * 3000, (2, 103)),
        ("- " * 3000, (1, 201)),
    ],
)
def test_broken_yaml_has_a_position(text: str, place: tuple[int, int]) -> None:
    problem = compose(text, Path("defs.yaml"))
    assert isinstance(problem, Problem)
    assert (problem.position.line, problem.position.column) == place
    assert "broken YAML" in str(problem)
