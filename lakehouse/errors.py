"""Every error of lakehouse, in one tree, grouped by what the operator does next.

    LakehouseError
    ├── DataError              exit 1   look at the data: the table and the bookmark are as they were
    │   ├── UnreadableObject            one landing object cannot be read as declared: it is quarantined
    │   ├── GateFailed                  a gate refused the batch
    │   ├── Blocked                     an operator must decide before the load can go on
    │   │   └── Held                    an operator holds the table
    │   ├── TargetDamaged               the target breaks a rule of ours (NULL or doubled live keys)
    │   ├── CountsDiffer                a reconciliation equation does not hold
    │   └── Detached                    somebody rolled the table back or replaced it
    ├── UsageError             exit 2   change the command, the declaration or the environment
    │   ├── DeclarationError            a declaration is wrong: file:line:column: field
    │   ├── ConfigurationError          credentials, bucket, catalog, environment
    │   ├── Unaccepted                  a source without a bookmark would re-read history: rename, or accept it
    │   └── NotAvailable                a feature that does not exist yet
    ├── RetryLater             exit 3   run the same command again, nothing was changed
    │   ├── Unavailable                 a service does not answer
    │   ├── LeaseHeld                   another load of this table is running
    │   ├── Conflict                    others committed first, again and again
    │   └── ObjectChanged               a landing object was overwritten while we worked: plan again
    └── OutcomeUnknown         exit 4   a commit was sent and nobody could say whether it landed

Secrets in a message are masked when it is made, here and nowhere else (`lakehouse.redaction`).
Messages are lower case, name the object and the value as `key=value`, and end in the next command where there is
one (`next`). Foreign exceptions are translated once, in the module where they enter. This module never does I/O.
"""

from __future__ import annotations

from lakehouse.redaction import redacted

DOCTOR = "lakehouse doctor"
"""Names what is missing around a load, and mends nothing itself."""


class LakehouseError(Exception):
    """Root of the tree. `exit_code` is what the command line returns; `next` is the command that helps."""

    exit_code = 70
    in_lines = False
    """Whether line ends of the message are ours; otherwise they are part of a name or a value."""

    usual_next = ""
    """What helps where an error says nothing nearer."""

    def __init__(self, message: str, *, next: str = "") -> None:
        self.message = redacted(message)
        self.next = redacted(next or self.usual_next)
        super().__init__(self.message)

    def __str__(self) -> str:
        # Again: what was read since then may be a secret too.
        return redacted(f"{self.message}\nnext: {self.next}" if self.next else self.message)


class DataError(LakehouseError):
    """The data is wrong; nothing was changed."""

    exit_code = 1


class UnreadableObject(DataError):
    """A landing object that cannot be read as declared; it is quarantined and the others go on."""


class GateFailed(DataError):
    """A gate refused the batch before the merge."""


class Blocked(DataError):
    """What the load would do needs an operator's word first."""


class Held(Blocked):
    """An operator holds the table: nothing is loaded until it is released."""


class TargetDamaged(DataError):
    """The target holds rows that break a rule the merge relies on, or a data file that cannot be read."""


class CountsDiffer(DataError):
    """A reconciliation equation does not hold."""


class Detached(DataError):
    """The target no longer descends from the snapshot that the bookmark stands on."""


class UsageError(LakehouseError):
    """The command, the declaration or the environment has to change."""

    exit_code = 2


class DeclarationError(UsageError):
    """A declaration is wrong; the message starts with `file:line:column: field`, and has one line for each mistake."""

    in_lines = True


class ConfigurationError(UsageError):
    """Credentials, bucket, catalog or an environment variable is wrong or missing."""

    usual_next = DOCTOR


class Unaccepted(UsageError):
    """A source has no bookmark though its table has some, or its folder is another one: somebody must say that reading
    it from the beginning is meant."""


class NotAvailable(UsageError):
    """A field, a value or a command whose feature does not exist yet; one line for each."""

    in_lines = True


class RetryLater(LakehouseError):
    """Nothing was changed; the same command may succeed later."""

    exit_code = 3


class Unavailable(RetryLater):
    """A service does not answer, or answers 5xx or 429."""

    usual_next = DOCTOR


class LeaseHeld(RetryLater):
    """Another load of the same table holds the lease."""


class Conflict(RetryLater):
    """The commit lost against others more often than we retry."""


class ObjectChanged(RetryLater):
    """A landing object no longer has the planned ETag; the batch must be planned again."""

    def __init__(self, message: str, *, uri: str, next: str = "") -> None:
        super().__init__(message, next=next)
        self.uri = uri


class OutcomeUnknown(LakehouseError):
    """A commit was sent and reading back did not settle whether it landed."""

    exit_code = 4
