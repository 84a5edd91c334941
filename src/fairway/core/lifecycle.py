"""What each verb does in each place. One table; nothing here computes, nothing else decides.

Rows stand in the order of the documentation. Of the rows of a verb and a place, the first whose
fact holds is taken. No row: the verb does nothing there (a settle without its lease is lost, a send
is a new message).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from fairway.core.records import Place, State


class Verb(Enum):
    """Who acts: the producer, the holder, the system, a person."""

    SEND = "send"  # the same id is there already
    REPLACE = "replace"  # a newer message took its `replaces` name
    ACK = "ack"
    NAK = "nak"
    REQUEUE = "requeue"
    REJECT = "reject"
    DECLINE = "decline"
    RESCHEDULE = "reschedule"
    RELEASE = "release"
    EXTEND = "extend"
    LAPSE = "lapse"
    EXPIRE = "expire"
    CANCEL = "cancel"
    CHANGE = "change"
    PURGE = "purge"
    DELETE = "delete"  # its queue is deleted by force
    RECOVER = "recover"
    REPLAY = "replay"


class When(Enum):
    """A fact that a row may ask for."""

    ALWAYS = auto()
    SAME = auto()  # the content is that of the newest version, under the policies ignore and update
    CLASH = auto()  # same id under the policy error
    IGNORE = auto()  # other content under the policy ignore
    ENOUGH = auto()  # with this one, enough consumers confirmed
    SUPERSEDED = auto()  # a version is parked behind it, or it is not the newest of its name
    PARKED = auto()  # a version is parked behind it
    EXPIRED = auto()  # its own time is over
    LAST = auto()  # no retry is left
    WORN = auto()  # no delivery is left
    PARTLY = auto()  # some consumer confirmed it
    DELETED = auto()  # its queue was deleted by force
    COPIED = auto()  # it was recovered before
    NEWER = auto()  # something newer of its id or of its name exists


class Ready(Enum):
    """When a delivery that goes back is available."""

    NEVER = auto()
    NOW = auto()
    BACKOFF = auto()  # the queue's back-off, or the delay that was asked for
    REDELIVERY = auto()  # the queue's redelivery delay, or the delay that was asked for
    DELAY = auto()  # the delay that was asked for
    OLD_PLACE = auto()  # where it stood before the lease


class Row(NamedTuple):
    """One cell. `to` None: the state stays as it is. `refuse`: the code of the answer instead."""

    verb: Verb
    place: Place
    when: When
    to: State | None = None
    event: str | None = None
    ready: Ready = Ready.NEVER
    add: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()
    reason: str | None = None
    refuse: str | None = None


_V, _P, _W, _S, _R = Verb, Place, When, State, Ready
_WAITING, _LEASED, _HISTORY, _DEAD = _P.WAITING, _P.LEASED, _P.HISTORY, _P.DEAD
_OUT = ("deliveries",)


def _back(
    verb: Verb,
    to: State,
    event: str,
    ready: Ready,
    add: tuple[str, ...],
    zero: tuple[str, ...] = (),
) -> tuple[Row, ...]:
    """A verb after which a leased delivery goes back, unless something ends it first."""
    ended = _OUT + tuple(name for name in add if name == "errors")
    return (
        Row(verb, _LEASED, _W.SUPERSEDED, _S.OBSOLETE, "obsolete", add=ended[1:]),
        Row(verb, _LEASED, _W.EXPIRED, _S.EXHAUSTED, "expired", add=ended, reason="message-expired"),
        Row(verb, _LEASED, _W.WORN, _S.EXHAUSTED, "exhausted", add=ended, reason="delivery-limit"),
        Row(verb, _LEASED, _W.ALWAYS, to, event, ready, add=_OUT + add, zero=zero),
    )  # fmt: skip


def _or_last(verb: Verb, rows: tuple[Row, ...], add: tuple[str, ...]) -> tuple[Row, ...]:
    """… and the last retry is a dead letter."""
    last = Row(
        verb,
        _LEASED,
        _W.LAST,
        _S.EXHAUSTED,
        "exhausted",
        add=_OUT + add,
        reason="retries-exhausted",
    )
    return (*rows[:2], last, *rows[2:])


TABLE: Final = (
    # A send whose id is there already; at rest only within the duplication window.
    *(
        row
        for place in (_WAITING, _LEASED, _HISTORY, _DEAD)
        for row in (
            Row(_V.SEND, place, _W.CLASH, refuse="duplicate"),
            Row(_V.SEND, place, _W.SAME, event="duplicate"),
            Row(_V.SEND, place, _W.IGNORE, event="duplicate"),
        )
    ),
    Row(_V.SEND, _WAITING, _W.ALWAYS, _S.OBSOLETE, "obsolete"),
    Row(_V.SEND, _LEASED, _W.ALWAYS, event="updated"),  # parked
    # A send that takes the name.
    Row(_V.REPLACE, _WAITING, _W.ALWAYS, _S.OBSOLETE, "obsolete"),
    Row(_V.REPLACE, _LEASED, _W.PARKED, event="obsolete"),  # what is parked
    # The holder.
    Row(_V.ACK, _LEASED, _W.ENOUGH, _S.COMPLETED, "completed", add=_OUT),
    Row(_V.ACK, _LEASED, _W.SUPERSEDED, _S.OBSOLETE, "obsolete"),
    Row(_V.ACK, _LEASED, _W.EXPIRED, _S.EXHAUSTED, "expired", add=_OUT, reason="message-expired"),
    Row(_V.ACK, _LEASED, _W.WORN, _S.EXHAUSTED, "exhausted", add=_OUT, reason="delivery-limit"),
    Row(_V.ACK, _LEASED, _W.ALWAYS, _S.PARTLY, "confirmed", _R.NOW, add=_OUT),
    *_or_last(
        _V.NAK,
        _back(_V.NAK, _S.RETRY, "nak", _R.BACKOFF, ("retries", "errors")),
        ("errors",),
    ),
    *_back(_V.REQUEUE, _S.RETRY, "requeue", _R.REDELIVERY, ("requeues",)),
    Row(
        _V.REJECT, _LEASED, _W.ALWAYS, _S.REJECTED, "rejected",
        add=(*_OUT, "errors"), reason="rejected",
    ),
    Row(_V.DECLINE, _LEASED, _W.ALWAYS, _S.DECLINED, "declined", add=_OUT),
    *_back(_V.RESCHEDULE, _S.RETRY, "reschedule", _R.DELAY, (), ("retries",)),
    Row(_V.RELEASE, _LEASED, _W.SUPERSEDED, _S.OBSOLETE, "obsolete"),
    Row(_V.RELEASE, _LEASED, _W.EXPIRED, _S.EXHAUSTED, "expired", reason="message-expired"),
    Row(_V.RELEASE, _LEASED, _W.PARTLY, _S.PARTLY, "release", _R.OLD_PLACE),
    Row(_V.RELEASE, _LEASED, _W.ALWAYS, _S.QUEUED, "release", _R.OLD_PLACE),
    Row(_V.EXTEND, _LEASED, _W.ALWAYS, add=("pulses",)),
    # The system.
    Row(_V.LAPSE, _LEASED, _W.DELETED, _S.CANCELLED, "cancelled", add=_OUT, reason="target-deleted"),
    *(
        row._replace(reason=row.reason or "lease-lapsed") if row.ready is _R.BACKOFF else row
        for row in _or_last(
            _V.LAPSE, _back(_V.LAPSE, _S.RETRY, "lapse", _R.BACKOFF, ("retries",)), ()
        )
    ),
    Row(_V.EXPIRE, _WAITING, _W.ALWAYS, _S.EXHAUSTED, "expired", reason="message-expired"),
    # A person.
    Row(_V.CANCEL, _WAITING, _W.ALWAYS, _S.CANCELLED, "cancelled"),
    Row(_V.CANCEL, _LEASED, _W.PARKED, event="cancelled"),  # what is parked
    Row(_V.CANCEL, _LEASED, _W.ALWAYS, refuse="leased"),
    Row(_V.CANCEL, _HISTORY, _W.ALWAYS, refuse="ended"),
    Row(_V.CANCEL, _DEAD, _W.ALWAYS, _S.CANCELLED, "discarded"),
    Row(_V.CHANGE, _WAITING, _W.ALWAYS, event="changed"),
    Row(_V.CHANGE, _LEASED, _W.PARKED, event="changed"),  # what is parked
    Row(_V.CHANGE, _LEASED, _W.ALWAYS, refuse="leased"),
    Row(_V.CHANGE, _HISTORY, _W.ALWAYS, refuse="ended"),
    Row(_V.CHANGE, _DEAD, _W.ALWAYS, refuse="ended"),
    Row(_V.PURGE, _WAITING, _W.ALWAYS, _S.CANCELLED, "purged", reason="purged"),
    Row(_V.PURGE, _LEASED, _W.PARKED, event="purged", reason="purged"),  # what is parked
    Row(_V.DELETE, _WAITING, _W.ALWAYS, _S.CANCELLED, "cancelled", reason="target-deleted"),
    Row(_V.DELETE, _LEASED, _W.PARKED, event="cancelled", reason="target-deleted"),  # what is parked
    Row(_V.RECOVER, _DEAD, _W.COPIED, refuse="recovered"),
    Row(_V.RECOVER, _DEAD, _W.NEWER, refuse="superseded"),
    Row(_V.RECOVER, _DEAD, _W.ALWAYS, event="recovered"),
    Row(_V.REPLAY, _HISTORY, _W.NEWER, refuse="superseded"),
    Row(_V.REPLAY, _HISTORY, _W.ALWAYS, event="replayed"),
)  # fmt: skip

PLACES: Final[Mapping[State, Place]] = {
    _S.QUEUED: _WAITING,
    _S.PARTLY: _WAITING,
    _S.RETRY: _WAITING,
    _S.LEASED: _LEASED,
    _S.COMPLETED: _HISTORY,
    _S.KICKED: _HISTORY,
    _S.UNCHANGED: _HISTORY,
    _S.DECLINED: _HISTORY,
    _S.OBSOLETE: _HISTORY,
    _S.CANCELLED: _HISTORY,
    _S.EXHAUSTED: _DEAD,
    _S.REJECTED: _DEAD,
}
BODILESS: Final = frozenset({_S.UNCHANGED, _S.OBSOLETE, _S.CANCELLED})  # keep no body
STANDS: Final = frozenset(
    {_S.COMPLETED, _S.KICKED, _S.DECLINED, _S.UNCHANGED}
)  # an equal head holds

_ROWS: Final[Mapping[tuple[Verb, Place], tuple[Row, ...]]] = {
    (verb, place): tuple(row for row in TABLE if (row.verb, row.place) == (verb, place))
    for verb in Verb
    for place in Place
}


def step(verb: Verb, place: Place, facts: Container[When]) -> Row | None:
    """The row that applies; None where the verb does nothing there."""
    for row in _ROWS[verb, place]:
        if row.when is When.ALWAYS or row.when in facts:
            return row
    return None
