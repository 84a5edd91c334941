"""What can go wrong, whose fault it is, and whether trying again helps.

    FairwayError
    ├── CallerError          the call must change
    │   ├── InvalidInput         a field is wrong; `field` names it
    │   │   ├── TooLarge             a field is over its limit
    │   │   └── ConsumerRequired     the queue wants to know who asks
    │   ├── TooManyTargets       the store holds as many queues and channels as it may
    │   └── NotFound             no such queue, message or range
    │       └── LogGone              that part of the log is past its retention
    ├── StateError           the world moved on; the same call will fail again
    │   ├── LeaseLost            the lease ended, or was never this caller's
    │   ├── AlreadySettled       the lease was settled by another verb
    │   ├── Leased               it is being worked on
    │   ├── Ended                it is at rest already
    │   ├── NotPlaced            it waits for the pipeline to place it
    │   ├── Duplicate            this id was sent before
    │   ├── Exists               there is one of that name, with other settings
    │   └── NotEmpty             the queue holds deliveries
    ├── BusyError            the same call may go through later
    │   ├── QueueFull            the queue holds as many as it may
    │   ├── Contended            others kept changing the same record
    │   └── Overloaded           more asks wait than the limit
    ├── StoreError           the store's trouble
    │   ├── StoreUnavailable     not reachable; may come back
    │   └── StoreMismatch        not a store of ours, or of another version
    └── SettingsError        refuse to start

In a batch an error is the answer of its item; alone it is raised. `code` is stable and is the last
part of the problem's `type` over HTTP.
"""

from __future__ import annotations

from typing import ClassVar


class FairwayError(Exception):
    """Any error of Fairway. `detail` says what happened and what to do."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str, **facts: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts


class CallerError(FairwayError):
    """The call must change."""


class InvalidInput(CallerError):
    """A field is wrong."""

    code = "invalid"

    def __init__(self, field: str, detail: str, **facts: object) -> None:
        super().__init__(f"{field}: {detail}", field=field, **facts)
        self.field = field


class TooLarge(InvalidInput):
    """A field is over its limit."""

    code = "too-large"


class ConsumerRequired(InvalidInput):
    """The queue wants several consumers to confirm, so it must know who asks."""

    code = "consumer-required"


class TooManyTargets(CallerError):
    """The store holds as many queues and channels as it may."""

    code = "too-many-targets"


class NotFound(CallerError):
    """There is no such thing."""

    code = "not-found"


class LogGone(NotFound):
    """That part of the log is past its retention."""

    code = "log-gone"


class StateError(FairwayError):
    """The world moved on; the same call will fail again."""


class LeaseLost(StateError):
    """The lease ended, or was never this caller's. Nothing was changed."""

    code = "lease-lost"


class AlreadySettled(StateError):
    """This lease was settled, by another verb."""

    code = "already-settled"


class Leased(StateError):
    """It is being worked on."""

    code = "leased"
    retryable = True


class Ended(StateError):
    """It is at rest already."""

    code = "ended"


class NotPlaced(StateError):
    """It waits for the pipeline to place it."""

    code = "not-placed"
    retryable = True


class Duplicate(StateError):
    """This id was sent before; `sameContent` says whether it was the same."""

    code = "duplicate"


class Exists(StateError):
    """There is one of that name, with other settings."""

    code = "exists"


class NotEmpty(StateError):
    """The queue holds deliveries."""

    code = "not-empty"


class BusyError(FairwayError):
    """The same call may go through later."""

    retryable = True


class QueueFull(BusyError):
    """The queue holds as many as it may; nothing was done."""

    code = "queue-full"


class Contended(BusyError):
    """Others kept changing the same record."""

    code = "contended"


class Overloaded(BusyError):
    """More asks wait than the limit; nothing was done."""

    code = "overloaded"


class StoreError(FairwayError):
    """The store's trouble."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store cannot be reached; whether the call was done is not known."""

    code = "store-unavailable"
    retryable = True


class StoreMismatch(StoreError):
    """What was opened is not a store of ours, or is of another version."""

    code = "store-mismatch"


class SettingsError(FairwayError):
    """A setting is wrong; Fairway refuses to start."""

    code = "settings"
