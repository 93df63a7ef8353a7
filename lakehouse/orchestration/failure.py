"""How a load or a check that failed ends its run: which failures may be tried again, and what the run says.

Field case O11: Dagster retries a failed run as a whole, whatever the step said, unless the run carries a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import dagster as dg

from lakehouse.errors import LakehouseError, RetryLater
from lakehouse.model import Receipt, State
from lakehouse.orchestration.metadata import (
    Metadata,
    diagnosis_metadata,
    diagnosis_text,
    error_text,
    load_metadata,
    receipt_text,
)
from lakehouse.orchestration.names import MAX_RETRIES, REFUSED, STATE

if TYPE_CHECKING:
    from lakehouse.audit.diagnosis import Diagnosis
    from lakehouse.orchestration.partitions import RunContext

RETRY_LATER = RetryLater.exit_code
NEVER_AGAIN = (1, 2, 70)
"""Exit codes that another try does not change: the data, the declaration or our code must."""
MOST_RETRIES = 3
RETRY_SECONDS = 30
"""Before the first retry inside the run; it doubles. The load itself has already waited for lease and services."""


def has_failed(receipt: Receipt) -> bool:
    """A load that only quarantined objects has succeeded: the others are loaded, `objects_complete` fails. Of several
    sources none may have failed."""
    if receipt.sources:
        return any(map(has_failed, receipt.sources))
    return receipt.exit_code != 0 and not (receipt.exit_code == 1 and receipt.state is State.COMMITTED)


def fail_load(
    context: dg.AssetExecutionContext, receipt: Receipt, *, diagnose: Callable[[], Sequence[Diagnosis]]
) -> NoReturn:
    """End the run of a failed load, which says where the table stands now and what comes next. As long as another try
    helps one of several sources, it is worth one."""
    parts = receipt.sources or (receipt,)
    again = any(part.exit_code == RETRY_LATER for part in parts)
    told, found = _diagnosed(diagnose)
    _fail(
        context,
        state=receipt.state.value,
        exit_code=RETRY_LATER if again else receipt.exit_code,
        text=f"{receipt_text(receipt)}\n{told}",
        metadata={**load_metadata(receipt), **found},
    )


@contextmanager
def telling_interruptions(
    context: dg.AssetExecutionContext, *, diagnose: Callable[[], Sequence[Diagnosis]]
) -> Iterator[None]:
    """A run that is terminated says in its log where the table stands: Dagster tells of such a failure only that it was
    interrupted."""
    try:
        yield
    except BaseException as stop:
        if not isinstance(stop, Exception):
            context.log.error(_diagnosed(diagnose)[0])
        raise


def _diagnosed(diagnose: Callable[[], Sequence[Diagnosis]]) -> tuple[str, Metadata]:
    """Where the table stands, as text and as metadata; or why nobody can tell."""
    try:
        found = diagnose()
    except LakehouseError as error:
        return f"not diagnosed: {error_text(error)}", {}
    return diagnosis_text(found), diagnosis_metadata(found)


def fail_with(context: RunContext, error: LakehouseError) -> NoReturn:
    """End the run, or the check, of an error that came before there was a receipt."""
    _fail(context, state=State.FAILED.value, exit_code=error.exit_code, text=error_text(error), metadata={})


def _fail(
    context: RunContext, *, state: str, exit_code: int, text: str, metadata: dict[str, dg.MetadataValue]
) -> NoReturn:
    if exit_code == RETRY_LATER and context.retry_number < MOST_RETRIES:
        context.log.warning(f"{text}\nretry {context.retry_number + 1} of {MOST_RETRIES} follows")
        raise dg.RetryRequested(max_retries=MOST_RETRIES, seconds_to_wait=RETRY_SECONDS * 2**context.retry_number)
    tags = {STATE: state}
    if exit_code in NEVER_AGAIN:
        tags |= {REFUSED: "true", MAX_RETRIES: "0"}
    context.instance.add_run_tags(context.run.run_id, tags)
    raise dg.Failure(description=text, metadata=metadata, allow_retries=False)
