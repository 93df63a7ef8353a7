"""One YAML document to one declaration, or to every mistake in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from lakehouse.declaration.explain import explain
from lakehouse.declaration.fields import show
from lakehouse.declaration.model import Declaration, Origin, Script
from lakehouse.declaration.problem import Finding, Loc, Position, Problem, field_name, nearest
from lakehouse.declaration.rules import broken_rules
from lakehouse.declaration.yaml_source import Tree, build_tree, is_null, node_position

COMPONENT = "lakehouse.components.IcebergTable"
LEDGER_NAMESPACE = "lakehouse_ops"
"""Where the ledger's tables are unless LAKEHOUSE_OPS_NAMESPACE says otherwise."""
ReadScript = Callable[[str], str]
"""Gives the text of a file beside the declaration by its name there. Raises ValueError that says what is wrong."""
# what Dagster itself reads beside the attributes of a component, and applies to whatever the component returns
_DAGSTER_KEYS = ("requirements", "post_processing")
_FIELDS = {info.alias or name for name, info in Declaration.model_fields.items()}


def parse_document(
    node: yaml.Node, *, path: Path, index: int, env: Mapping[str, str], read: ReadScript
) -> Declaration | tuple[Problem, ...] | None:
    """The declaration in a document, its mistakes in file order, or None if it is empty or another component's.

    `read` is called for the file that `sql` names.
    """
    if is_null(node):
        return None
    start = node_position(node)
    if not isinstance(node, yaml.MappingNode):
        return (Problem(path, start, "", f"expected a mapping with type: {COMPONENT} and attributes"),)
    keys = {str(key.value): (key, value) for key, value in reversed(node.value) if isinstance(key, yaml.ScalarNode)}
    if "type" not in keys:
        return (Problem(path, start, "type", f"missing; expected type: {COMPONENT}"),)
    component = str(keys["type"][1].value)
    if component != COMPONENT:
        if not component.startswith("lakehouse."):
            return None
        position = node_position(keys["type"][1])
        return (Problem(path, position, "type", f"got {show(component)}; expected {COMPONENT}"),)
    problems = _document_keys(node, path)
    if "attributes" not in keys:
        return (*problems, Problem(path, start, "attributes", "missing; expected the declaration of a table"))
    tree = build_tree(keys["attributes"][1], env)
    declaration, findings = _validate(tree, read)
    findings += _ledger_table(tree, env)
    problems += [_problem(finding, tree, path) for finding in findings]
    if declaration is None or problems:
        return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.position))
    fields = {str(loc[0]): position for loc, position in tree.values.items() if len(loc) == 1}
    return declaration.at(Origin(path, tree.position(("table",)), index, fields))


def _document_keys(node: yaml.MappingNode, path: Path) -> list[Problem]:
    problems = []
    first: dict[str, Position] = {}
    for key, _ in node.value:
        name, position = str(key.value), node_position(key)
        if name in first:
            message = f"duplicate key, first on line {first[name].line}; keep one of them"
            problems.append(Problem(path, position, name, message))
        elif name == "template_vars_module":
            problems.append(Problem(path, position, name, "not supported; only {{ env.NAME }} is replaced"))
        elif name not in ("type", "attributes", *_DAGSTER_KEYS):
            known = ["type", "attributes", *_DAGSTER_KEYS]
            hint = "it belongs into attributes" if name in _FIELDS else nearest(name, known)
            problems.append(Problem(path, position, name, f"unknown field; {hint}"))
        first.setdefault(name, position)
    return problems


def _validate(tree: Tree, read: ReadScript) -> tuple[Declaration | None, list[Finding]]:
    """The declaration if the model takes it, and what breaks fields and rules."""
    attributes = tree.value
    findings = list(tree.findings)
    declaration = None
    try:
        declaration = Declaration.model_validate(_with_script(attributes, read, findings))
    except ValidationError as error:
        findings += [finding for finding in explain(error, attributes) if not _follows(finding.loc, tree)]
    if isinstance(attributes, dict):
        findings += [finding for finding in broken_rules(attributes) if not _follows(finding.loc, tree)]
    return declaration, findings


def _with_script(attributes: object, read: ReadScript, findings: list[Finding]) -> object:
    """The attributes with the file that `sql` names in place of its name; without it if there is a finding about it."""
    if not isinstance(attributes, dict) or (name := attributes.get("sql")) is None:
        return attributes
    without = {field: value for field, value in attributes.items() if field != "sql"}
    if not isinstance(name, str):
        findings.append(Finding(("sql",), f"got {show(name)}; expected a file in its folder such as orders.sql"))
        return without
    try:
        script = Script(file=name, text="")
        return {**attributes, "sql": script.model_copy(update={"text": read(name)})}
    except ValidationError as error:
        findings += [Finding(("sql",), f"got {show(name)}; {d['ctx']['error']}") for d in error.errors()]
    except ValueError as error:
        findings.append(Finding(("sql",), str(error)))
    return without


def _ledger_table(tree: Tree, env: Mapping[str, str]) -> list[Finding]:
    table = tree.value.get("table") if isinstance(tree.value, dict) else None
    namespace = env.get("LAKEHOUSE_OPS_NAMESPACE") or LEDGER_NAMESPACE
    # some catalogs fold case
    if not isinstance(table, str) or table.rpartition(".")[0].lower() != namespace.lower():
        return []
    return [Finding(("table",), f"got {show(table)}; {namespace} holds the ledger, choose another namespace")]


def _follows(loc: Loc, tree: Tree) -> bool:
    """Whether the place, or one around it, has a finding of the YAML layer already."""
    return any(loc[:length] in tree.broken for length in range(len(loc) + 1))


def _problem(finding: Finding, tree: Tree, path: Path) -> Problem:
    position = finding.position or tree.position(finding.loc, at_key=finding.at_key)
    return Problem(path, position, field_name(finding.loc), finding.message, finding.later)
