"""A receipt as metadata of a materialization, and the description of a table. Pure: values in, Dagster's values out.

Row counts are plain integers, so that the UI plots them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse import naming
from lakehouse.errors import LakehouseError
from lakehouse.model import DateCounts, Equation, GateResult, Receipt
from lakehouse.orchestration.markdown import Code, markdown_list, markdown_table
from lakehouse.orchestration.names import STATE
from lakehouse.readable import readable

if TYPE_CHECKING:
    from lakehouse.audit.diagnosis import Diagnosis
    from lakehouse.declaration import Declaration

Metadata = dict[str, dg.MetadataValue]

BOOKMARK_VERSION = "bookmark_version"
SNAPSHOT_ID = "snapshot_id"
GATES = "gates"
COLUMN_SCHEMA = "dagster/column_schema"
_SHOWN = ("read", "rejected", "staged", "superseded", "stale", "unchanged", "inserted", "updated", "deleted")


def definition_metadata(declaration: Declaration) -> Metadata:
    """What the asset's page shows of the table before anything is loaded."""
    catalog = f"{declaration.catalog}." if declaration.catalog else ""
    return {
        COLUMN_SCHEMA: dg.MetadataValue.table_schema(column_schema(declaration)),
        "dagster/table_name": dg.MetadataValue.text(catalog + declaration.table),
        "source": dg.MetadataValue.text("\n".join(s.uri + (s.partition or "") for s in declaration.sources)),
        "bookmark": dg.MetadataValue.text(", ".join(declaration.contexts)),
        "key": dg.MetadataValue.text(", ".join(declaration.key)),
    }


def column_schema(declaration: Declaration) -> dg.TableSchema:
    """The columns of the target in order, those that files added last; a key of one column is unique where the whole
    table is keyed."""
    alone = declaration.key if declaration.keyed and len(declaration.key) == 1 else ()
    columns = [
        dg.TableColumn(
            column.name,
            str(column.type),
            constraints=dg.TableColumnConstraints(
                nullable=not (column.required or column.name in declaration.key), unique=column.name in alone
            ),
        )
        for column in declaration.declared.columns
    ]
    ours = dict(naming.LINEAGE) if declaration.lineage else {}
    if declaration.soft_deletes:
        ours[naming.DELETED_AT] = "timestamptz"
    added = (dg.TableColumn(name, "string", description=naming.ADDED) for name in declaration.added)
    return dg.TableSchema([*columns, *(dg.TableColumn(name, kind) for name, kind in ours.items()), *added])


def added_metadata(declaration: Declaration, receipt: Receipt) -> Metadata:
    """The columns of the table after a load where files added some: the asset's own schema knows the declared ones."""
    if not receipt.added_columns:
        return {}
    schema = column_schema(declaration.with_added(receipt.added_columns))
    return {COLUMN_SCHEMA: dg.MetadataValue.table_schema(schema)}


def load_metadata(receipt: Receipt) -> Metadata:
    """Everything that a load reports."""
    return {**_table_rows(receipt), **_counts("rows", receipt.rows.as_dict()), **position_metadata(receipt)}


def _version(receipt: Receipt) -> Metadata:
    version = receipt.bookmark_version
    return {} if version is None else {BOOKMARK_VERSION: dg.MetadataValue.int(version)}


def position_metadata(receipt: Receipt) -> Metadata:
    """What a load reports that is no count of rows: true of every date that it read."""
    metadata: Metadata = {
        STATE: dg.MetadataValue.text(receipt.state.value),
        **_version(receipt),
        # 64 bits: more than JavaScript's numbers hold
        SNAPSHOT_ID: dg.MetadataValue.text(str(receipt.snapshot_id or "")),
        "context": dg.MetadataValue.text(receipt.context),
        "declaration": dg.MetadataValue.text(receipt.declaration),
        "batches": dg.MetadataValue.json([batch.batch_id for batch in receipt.batches]),
        "seconds": dg.MetadataValue.json({step: round(value, 3) for step, value in receipt.seconds.items()}),
        **_merge_share(receipt.seconds),
        **_counts("objects", receipt.objects),
        **_counts("files", {"added": receipt.files.added, "rewritten": receipt.files.rewritten}),
    }
    if receipt.sources:
        metadata["sources"] = dg.MetadataValue.md(sources_table(receipt.sources))
    for part in receipt.sources:
        metadata |= {f"{part.context}/{name}": value for name, value in _source_metadata(part).items()}
    if receipt.dates:
        metadata["dates"] = dg.MetadataValue.md(dates_table(receipt.dates))
    if receipt.gates:
        metadata[GATES] = gates_value(receipt.gates)
    if receipt.rows.rejected:
        metadata["rejects"] = dg.MetadataValue.text("\n".join(_reject_commands(receipt)))
    if receipt.warnings:
        metadata["warnings"] = dg.MetadataValue.md(markdown_list(receipt.warnings))
    if receipt.error:
        metadata["error"] = dg.MetadataValue.text(readable(receipt.error))
    if receipt.next:
        metadata["next"] = dg.MetadataValue.text(readable(receipt.next))
    return metadata


def _source_metadata(part: Receipt) -> Metadata:
    """What one of several sources reports."""
    metadata: Metadata = {
        "state": dg.MetadataValue.text(part.state.value),
        **_version(part),
        "declaration": dg.MetadataValue.text(part.declaration),
        "objects_read": dg.MetadataValue.int(part.objects["read"]),
    }
    if part.error:
        metadata["error"] = dg.MetadataValue.text(readable(part.error))
    if part.next:
        metadata["next"] = dg.MetadataValue.text(readable(part.next))
    return metadata


def sources_table(parts: Sequence[Receipt]) -> str:
    """Markdown: one line per source."""
    head = ["source", "state", "bookmark version", "objects", *_SHOWN]
    lines = [
        [p.context, p.state.value, p.bookmark_version, p.objects["read"], *(p.rows.as_dict()[name] for name in _SHOWN)]
        for p in parts
    ]
    return markdown_table(head, lines)


def date_metadata(receipt: Receipt, day: str) -> Metadata:
    """The counts of one landing date out of a load of several: they add up to the load's (field case C03)."""
    counts = receipt.dates.get(day, DateCounts())
    return {
        **_counts("rows", counts.rows.as_dict()),
        "date_objects": dg.MetadataValue.int(counts.objects),
        "date_gained": dg.MetadataValue.int(counts.gained),
        "date_lost": dg.MetadataValue.int(counts.lost),
    }


def dates_table(dates: Mapping[str, DateCounts]) -> str:
    """Markdown: one line per landing date."""
    head = ["date", "objects", *_SHOWN, "gained", "lost"]
    lines = [
        [day, c.objects, *(c.rows.as_dict()[name] for name in _SHOWN), c.gained, c.lost] for day, c in dates.items()
    ]
    return markdown_table(head, lines)


def equations_table(equations: Sequence[Equation]) -> str:
    """Markdown: one line per equation with both of its sides."""
    lines = [[e.name, e.landing_date or "", e.left, e.right, "yes" if e.holds else "**no**"] for e in equations]
    return markdown_table(["equation", "date", "left", "right", "holds"], lines)


def gates_value(gates: Sequence[GateResult]) -> dg.JsonMetadataValue:
    """Gates as data: the check of the same name reads them again."""
    return dg.MetadataValue.json(
        [
            {"name": g.name, "passed": g.passed, "value": g.value, "limit": g.limit, "detail": g.detail}
            | ({"accepted": g.accepted} if g.accepted else {})
            for g in gates
        ]
    )


def read_gates(metadata: Mapping[str, dg.MetadataValue]) -> tuple[GateResult, ...]:
    """The gates of stored metadata; none if the load had no batch."""
    value = metadata.get(GATES)
    if not isinstance(value, dg.JsonMetadataValue) or not isinstance(value.data, list):
        return ()
    return tuple(GateResult(**gate) for gate in value.data)


def read_snapshot_id(metadata: Mapping[str, dg.MetadataValue]) -> int | None:
    """The snapshot of stored metadata."""
    text = str(metadata[SNAPSHOT_ID].value) if SNAPSHOT_ID in metadata else ""
    return int(text) if text else None


def read_bookmark_version(metadata: Mapping[str, dg.MetadataValue]) -> int:
    """The bookmark version of stored metadata, 0 if it has none."""
    value = metadata.get(BOOKMARK_VERSION)
    return value.value or 0 if isinstance(value, dg.IntMetadataValue) else 0


def receipt_text(receipt: Receipt) -> str:
    """A receipt as a few lines for a log: what was done, what is wrong, and the next command."""
    objects = ", ".join(f"{count} {name}" for name, count in receipt.objects.items() if count) or "none"
    rows = ", ".join(f"{count} {name}" for name, count in receipt.rows.as_dict().items() if count) or "none"
    version = "" if receipt.sources else f"bookmark_version={receipt.bookmark_version}, "
    lines = [
        f"{receipt.table}: {receipt.state.value}, {version}snapshot_id={receipt.snapshot_id}",
        f"objects: {objects}",
        f"rows: {rows}",
        *(f"gate {gate_text(g)}" for g in receipt.gates if not g.passed),
        *(f"warning: {warning}" for warning in receipt.warnings),
    ]
    for part in receipt.sources:
        read = f"{part.objects['read']} objects read"
        lines.append(f"source {part.context}: {part.state.value}, bookmark_version={part.bookmark_version}, {read}")
        if part.error:
            lines.append(f"source {part.context} next: {part.next}")
    if receipt.error:
        lines.append(f"error: {receipt.error}")
    if receipt.next:
        lines.append(f"next: {receipt.next}")
    return "\n".join(map(readable, lines))


def diagnosis_metadata(found: Sequence[Diagnosis]) -> Metadata:
    """State, evidence and next command of each source; `next` is that of the worst."""
    lines = [[one.context, one.state.value, one.why, Code(one.next)] for one in found]
    metadata: Metadata = {
        "diagnosis": dg.MetadataValue.md(markdown_table(["source", "state", "why", "next"], lines)),
        "evidence": dg.MetadataValue.json({one.context: dict(one.evidence) for one in found}),
    }
    if command := next((one.next for one in found if one.next), ""):
        metadata["next"] = dg.MetadataValue.text(readable(command))
    return metadata


def diagnosis_text(found: Sequence[Diagnosis]) -> str:
    """What `lakehouse diagnose` says, for a log."""
    lines = []
    for one in found:
        lines.append(f"diagnosis of source {one.context}: {one.state.value}: {one.why}")
        lines += [f"  {name}: {text}" for name, text in one.evidence.items()]
        lines += [f"look: {command}" for command in one.look]
        if one.next:
            lines.append(f"next: {one.next}")
    return "\n".join(map(readable, lines))


def error_text(error: LakehouseError) -> str:
    """An error and the command that comes next, for a log."""
    lines = error.message.split("\n") if error.in_lines else [error.message]
    return "\n".join(map(readable, [*lines, f"next: {error.next}"] if error.next else lines))


def gate_text(gate: GateResult) -> str:
    """A gate that failed, and who accepted it, in one line."""
    parts = (f"{gate.name}: value={gate.value} limit={gate.limit}", gate.detail, gate.accepted)
    return " ".join(filter(None, parts))


def _merge_share(seconds: Mapping[str, float]) -> Metadata:
    """Of the load's time, as a number that the UI plots; nothing of a load that took none."""
    whole = seconds.get("total", 0.0)
    return {"merge_share": dg.MetadataValue.float(round(seconds.get("merge", 0.0) / whole, 4))} if whole else {}


def _table_rows(receipt: Receipt) -> Metadata:
    return {} if receipt.table_rows is None else {"dagster/row_count": dg.MetadataValue.int(receipt.table_rows)}


def _counts(group: str, counts: Mapping[str, int]) -> Metadata:
    return {f"{group}_{name}": dg.MetadataValue.int(count) for name, count in counts.items()}


def _reject_commands(receipt: Receipt) -> list[str]:
    return [
        f"lakehouse rejects show {receipt.table} --batch {batch.batch_id}"
        for batch in receipt.batches
        if batch.rows.rejected
    ]
