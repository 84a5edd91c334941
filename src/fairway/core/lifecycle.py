"""What each verb does in each place. One table; nothing here computes, nothing else decides.

Rows stand in the order of the documentation. Of the rows of a verb and a place, the first whose
fact holds is taken. No row: the verb does nothing there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from fairway.core.records import Place, State


class Verb(Enum):
    """Who acts: the producer (send), the holder (ack, nak, reject), the system (lapse)."""

    SEND = "send"
    ACK = "ack"
    NAK = "nak"
    REJECT = "reject"
    LAPSE = "lapse"


class When(Enum):
    """A fact that a row may ask for."""

    ALWAYS = auto()
    SAME = auto()  # the content is that of the newest version
    WINDOW = auto()  # it ended less than the duplication window ago, with the same content
    LAST = auto()  # no retry is left


class Ready(Enum):
    """When a delivery that goes back is available."""

    NEVER = auto()
    NOW = auto()
    BACKOFF = auto()


class Row(NamedTuple):
    """One cell. `to` None: the record stays as it is."""

    verb: Verb
    place: Place
    when: When
    to: State | None
    event: str
    ready: Ready = Ready.NEVER
    add: tuple[str, ...] = ()
    reason: str | None = None


TABLE: Final = (
    Row(Verb.SEND, Place.WAITING, When.SAME, None, "duplicate"),
    Row(Verb.SEND, Place.WAITING, When.ALWAYS, State.OBSOLETE, "obsolete"),
    Row(Verb.SEND, Place.LEASED, When.SAME, None, "duplicate"),
    Row(Verb.SEND, Place.HISTORY, When.WINDOW, None, "duplicate"),
    Row(Verb.SEND, Place.DEAD, When.WINDOW, None, "duplicate"),
    Row(Verb.ACK, Place.LEASED, When.ALWAYS, State.COMPLETED, "completed"),
    Row(
        Verb.NAK, Place.LEASED, When.LAST, State.EXHAUSTED, "exhausted",
        add=("errors",), reason="retries-exhausted",
    ),
    Row(
        Verb.NAK, Place.LEASED, When.ALWAYS, State.RETRY, "nak",
        Ready.BACKOFF, add=("retries", "errors"),
    ),
    Row(
        Verb.REJECT, Place.LEASED, When.ALWAYS, State.REJECTED, "rejected",
        add=("errors",), reason="rejected",
    ),
    Row(
        Verb.LAPSE, Place.LEASED, When.LAST, State.EXHAUSTED, "exhausted",
        reason="retries-exhausted",
    ),
    Row(
        Verb.LAPSE, Place.LEASED, When.ALWAYS, State.RETRY, "lapse",
        Ready.BACKOFF, add=("retries",), reason="lease-lapsed",
    ),
)  # fmt: skip

PLACES: Final[Mapping[State, Place]] = {
    State.QUEUED: Place.WAITING,
    State.RETRY: Place.WAITING,
    State.LEASED: Place.LEASED,
    State.COMPLETED: Place.HISTORY,
    State.OBSOLETE: Place.HISTORY,
    State.EXHAUSTED: Place.DEAD,
    State.REJECTED: Place.DEAD,
}

# Where a verb can have led: the holder's repeat of a settle finds its delivery there.
ENDS: Final = {verb: frozenset(row.to for row in TABLE if row.verb is verb) for verb in Verb}

_ROWS: Final[Mapping[tuple[Verb, Place], tuple[Row, ...]]] = {
    (verb, place): tuple(row for row in TABLE if (row.verb, row.place) == (verb, place))
    for verb in Verb
    for place in Place
}


def step(verb: Verb, place: Place, facts: Collection[When]) -> Row | None:
    """The row that applies; None where the verb does nothing there."""
    for row in _ROWS[verb, place]:
        if row.when is When.ALWAYS or row.when in facts:
            return row
    return None
