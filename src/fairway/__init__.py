"""One message queue that a Python team starts with one command and never outgrows.

>>> import fairway
>>> with fairway.connect("memory://") as fw:
...     sent = fw.send("orders.created", {"id": 7})
...     for d in fw.receive("orders"):
...         with d:  # leaves: ack; an exception: nak, then raised again
...             print(d.json())
{'id': 7}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.core.errors import (
    AlreadySettled,
    BusyError,
    CallerError,
    ConsumerRequired,
    Contended,
    Duplicate,
    Ended,
    Exists,
    FairwayError,
    InvalidInput,
    Leased,
    LeaseLost,
    LogGone,
    NotEmpty,
    NotFound,
    NotPlaced,
    Overloaded,
    QueueFull,
    SettingsError,
    StateError,
    StoreError,
    StoreMismatch,
    StoreUnavailable,
    TooLarge,
    TooManyTargets,
)

if TYPE_CHECKING:
    from fairway.sync import Fairway

__all__ = [
    "AlreadySettled",
    "BusyError",
    "CallerError",
    "ConsumerRequired",
    "Contended",
    "Duplicate",
    "Ended",
    "Exists",
    "FairwayError",
    "InvalidInput",
    "LeaseLost",
    "Leased",
    "LogGone",
    "NotEmpty",
    "NotFound",
    "NotPlaced",
    "Overloaded",
    "QueueFull",
    "SettingsError",
    "StateError",
    "StoreError",
    "StoreMismatch",
    "StoreUnavailable",
    "TooLarge",
    "TooManyTargets",
    "connect",
]


def connect(url: str) -> Fairway:
    """Opens `sqlite:///orders.db`, `memory://` or a server at `http://host:7070`.

    The same verbs everywhere. For asyncio: `fairway.aio.connect`.
    """
    from fairway import sync  # so that `import fairway` alone costs next to nothing

    return sync.connect(url)
