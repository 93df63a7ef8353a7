"""What a declaration asks of a batch before the merge, and of the table after it: gates and checks. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lakehouse.declaration.fields import Change, Count, Positive, Ratio, Switch, Text, TimeOfDay, Values

CHECKS = {
    "counts_reconcile": {"severity": "error", "blocking": True},
    "keys_unique": {"severity": "error", "blocking": True},
    "gates": {"severity": "error", "blocking": True},
    "objects_complete": {"severity": "error", "blocking": False},
    "late_arrivals": {"severity": "warn", "blocking": False},
    "freshness": {"severity": "warn", "blocking": False},
}
"""Every check of a table with the policy it has where none is declared."""


CheckName = Literal["counts_reconcile", "keys_unique", "gates", "objects_complete", "late_arrivals", "freshness"]


class ExpectedObjects(Values):
    """How many objects a landing date has, and by which time of the day."""

    min: Positive
    by: TimeOfDay = None


class Gates(Values):
    """Limits of a batch, checked before the merge. Ratios are 0 to 1; None asks for nothing."""

    max_rejected_ratio: Ratio = 0.0
    max_duplicate_ratio: Ratio | None = None
    max_conflicting_duplicates: Count | None = None
    row_count_change: Change | None = None
    expected_objects: ExpectedObjects | None = None
    control_file: Annotated[Text, Field(min_length=1)] | None = None


class CheckPolicy(Values):
    """What a failing check means."""

    severity: Literal["warn", "error"]
    blocking: Switch


def all_policies(value: object) -> object:
    """The declared policies over those of CHECKS."""
    if not isinstance(value, dict):
        return value
    given = {
        name: {**CHECKS.get(name, {}), **policy} if isinstance(policy, dict) else policy
        for name, policy in value.items()
    }
    return {**{name: policy for name, policy in CHECKS.items() if name not in given}, **given}
