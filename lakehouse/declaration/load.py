"""Find, read and check declarations; every mistake of every file is reported at once.

Reads `defs.yaml` files, the SQL that they name beside them, and nothing else; the environment comes in as an argument.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakehouse.declaration.document import COMPONENT, ReadScript, parse_document
from lakehouse.declaration.fields import show
from lakehouse.declaration.model import Declaration
from lakehouse.declaration.problem import Position, Problem, as_error, nearest
from lakehouse.declaration.yaml_source import compose, is_null
from lakehouse.errors import ConfigurationError, UsageError

FILE_NAME = "defs.yaml"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a set of files holds: the declarations without a mistake, and every mistake of the others."""

    declarations: tuple[Declaration, ...]
    problems: tuple[Problem, ...]

    def or_raise(self) -> tuple[Declaration, ...]:
        """The declarations. Raises DeclarationError, or NotAvailable if nothing else is wrong, with all mistakes."""
        if self.problems:
            raise as_error(self.problems)
        return self.declarations


def load_declarations(root: Path, env: Mapping[str, str]) -> tuple[Declaration, ...]:
    """Every declaration below `root`, by path. Raises DeclarationError or NotAvailable with a line per mistake."""
    return _load(root, env).or_raise()


def validate_all(root: Path, env: Mapping[str, str]) -> tuple[tuple[Declaration, ...], tuple[str, ...]]:
    """The right declarations below `root`, and one line per mistake of the others.

    Raises ConfigurationError if there is no such folder.
    """
    parsed = _load(root, env)
    return parsed.declarations, tuple(str(problem) for problem in parsed.problems)


def find_declaration(root: Path, table: str, env: Mapping[str, str]) -> Declaration:
    """The declaration of one table; mistakes in those of other tables do not matter to it.

    Raises DeclarationError or NotAvailable if it is not among the right ones and others are wrong, UsageError naming
    the known tables if none is wrong.
    """
    parsed = _load(root, env)
    for declaration in parsed.declarations:
        if declaration.table == table:
            return declaration
    parsed.or_raise()
    known = [declaration.table for declaration in parsed.declarations]
    hint = nearest(table, known) if known else f"no table is declared below {root}"
    raise UsageError(f"no declaration of table={table}; {hint}", next="lakehouse validate")


def declarations_reading(root: Path, uri: str, env: Mapping[str, str]) -> tuple[Declaration, ...]:
    """The declarations whose source folder holds an object, each with that source alone; of several, those whose
    `files` ask for it if any does.

    Raises as `find_declaration` does where there is none.
    """
    parsed = _load(root, env)
    every = [one for declaration in parsed.declarations for one in declaration.by_source]
    holding = [d for d in every if uri.startswith(d.source.uri)]
    asking = [d for d in holding if d.source.locate(uri.removeprefix(d.source.uri))[1]]
    if holding:
        return tuple(asking or holding)
    parsed.or_raise()
    sources = sorted({d.source.uri for d in every})
    hint = nearest(uri, sources) if sources else f"no table is declared below {root}"
    raise UsageError(f"no declared source holds uri={uri}; {hint}", next="lakehouse validate")


def parse_declaration_file(path: Path, env: Mapping[str, str]) -> tuple[Declaration, ...]:
    """The declarations of one file, in its order. Raises DeclarationError or NotAvailable."""
    return _unique(_parse_file(path, env)).or_raise()


def parse_declarations(
    text: str, *, path: Path, env: Mapping[str, str], folder: Path | None = None
) -> tuple[Declaration, ...]:
    """The declarations in a text; `path` is what messages call it, `folder` holds the files that it names, None if it
    can name none. Raises DeclarationError or NotAvailable.
    """
    return _unique(_parse_text(text, path, env, _scripts_in(folder))).or_raise()


def _load(root: Path, env: Mapping[str, str]) -> Parsed:
    if not root.is_dir():
        raise ConfigurationError(
            f"the folder of declarations does not exist: root={root}", next="export LAKEHOUSE_ASSETS=<folder>"
        )
    declarations: list[Declaration] = []
    problems: list[Problem] = []
    for path in sorted(root.rglob(FILE_NAME)):
        parsed = _parse_file(path, env)
        declarations += parsed.declarations
        problems += parsed.problems
    return _unique(Parsed(tuple(declarations), tuple(problems)))


def _parse_file(path: Path, env: Mapping[str, str]) -> Parsed:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = bytes(error.object)[: error.start]
        position = Position(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        return Parsed((), (Problem(path, position, "", "the file is not UTF-8; save it as UTF-8"),))
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}; check its permissions"
        return Parsed((), (Problem(path, Position(1, 1), "", message),))
    return _parse_text(text, path, env, _scripts_in(path.parent))


def _scripts_in(folder: Path | None) -> ReadScript:
    """Reads files of a folder, by their names in it."""

    def read(name: str) -> str:
        if folder is None:
            raise ValueError("this declaration stands in no file, so no file stands beside it; leave it out")
        try:
            text = (folder / name).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"the file {show(name)} is not UTF-8; save it as UTF-8") from None
        except OSError as error:
            raise ValueError(f"the file {show(name)} cannot be read in {folder}: {error.strerror}") from None
        if "\0" in text or not text.strip():
            fault = "holds a NUL character" if text.strip() else "is empty"
            raise ValueError(f"the file {show(name)} {fault}; expected a SELECT over staged")
        return text

    return read


def _parse_text(text: str, path: Path, env: Mapping[str, str], read: ReadScript) -> Parsed:
    nodes = compose(text, path)
    if isinstance(nodes, Problem):
        return Parsed((), (nodes,))
    if all(is_null(node) for node in nodes):
        return Parsed((), (Problem(path, Position(1, 1), "", f"the file is empty; expected type: {COMPONENT}"),))
    results = [parse_document(node, path=path, index=index, env=env, read=read) for index, node in enumerate(nodes)]
    declarations = tuple(result for result in results if isinstance(result, Declaration))
    return Parsed(declarations, tuple(p for result in results if isinstance(result, tuple) for p in result))


def _unique(parsed: Parsed) -> Parsed:
    """Refuse tables that are declared more than once, or that Dagster could not tell apart."""
    groups: dict[str, list[Declaration]] = defaultdict(list)
    for declaration in parsed.declarations:
        # some catalogs fold case; a nested namespace and a name with __ give Dagster the same name
        groups[declaration.table.lower().replace(".", "__")].append(declaration)
    problems = [
        Problem(
            again.path,
            again.position,
            "table",
            f"{show(again.table)} is declared already as {first.table} in {first.path}:{first.line}; keep one of them",
        )
        for first, *others in groups.values()
        for again in others
    ]
    alone = {id(group[0]) for group in groups.values() if len(group) == 1}
    declarations = tuple(declaration for declaration in parsed.declarations if id(declaration) in alone)
    return Parsed(declarations, (*parsed.problems, *problems))
