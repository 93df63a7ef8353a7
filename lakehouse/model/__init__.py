"""The values that flow between the steps. Pure: no I/O, no clock, no environment."""

from lakehouse.model.counts import ACCEPTED_AND_STAGED, DateCounts, Equation, FileCounts, GateResult, RowCounts
from lakehouse.model.plans import (
    GLUE_MODES,
    NEW_TABLE,
    Decision,
    LandingObject,
    Mode,
    ObjectDecision,
    Plan,
    SeenObject,
    Sweep,
    VersionRange,
    Window,
)
from lakehouse.model.published import Bookmark, ChainLink, Checkpoint, Grave, Hold, Manifest, ObjectOutcome, Reference
from lakehouse.model.receipts import BatchReceipt, Receipt, State
from lakehouse.model.seen import NOTHING, Changes, Glance, Seen, SeenStore, Tallies, Tally

__all__ = [
    "ACCEPTED_AND_STAGED",
    "GLUE_MODES",
    "NEW_TABLE",
    "NOTHING",
    "BatchReceipt",
    "Bookmark",
    "ChainLink",
    "Changes",
    "Checkpoint",
    "DateCounts",
    "Decision",
    "Equation",
    "FileCounts",
    "GateResult",
    "Glance",
    "Grave",
    "Hold",
    "LandingObject",
    "Manifest",
    "Mode",
    "ObjectDecision",
    "ObjectOutcome",
    "Plan",
    "Receipt",
    "Reference",
    "RowCounts",
    "Seen",
    "SeenObject",
    "SeenStore",
    "State",
    "Sweep",
    "Tallies",
    "Tally",
    "VersionRange",
    "Window",
]
