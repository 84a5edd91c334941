"""Records as rows, and back. One order of columns for the three places."""

from __future__ import annotations

from typing import Any, Final

from msgspec import msgpack
from msgspec.structs import replace

from fairway.core.records import (
    Delivery,
    Message,
    Place,
    State,
    lease_of,
    memo_of,
    packed_lease,
    packed_memo,
)

COLUMNS: Final = (
    "target, priority, turn, organization, confirmed, placed, sequence, id, generation, version, "
    "place, state, at, expires_at, token, send, size, fingerprint, counted, lease, memo"
)
BETWEEN: Final = "\x1f"  # counters in `counted`; their names hold line breaks
LINE: Final = 8  # the first columns: the place in line, key of the table `waiting`
MARKS: Final = ", ".join("?" * len(COLUMNS.split(", ")))
TABLES: Final = {
    Place.WAITING: "waiting",
    Place.LEASED: "leased",
    Place.HISTORY: "history",
    Place.DEAD: "dead",
}

_facts = msgpack.Decoder(Message)


def row_of(d: Delivery) -> tuple[Any, ...]:
    return (
        d.target, d.priority, d.turn, d.organization, d.confirmed, d.placed, d.sequence, d.id,
        d.generation, d.version, int(d.place), d.state.value, d.at, d.expires_at, d.token, d.send,
        d.size, d.fingerprint, BETWEEN.join(d.counted), packed_lease(d.lease), packed_memo(d.memo),
    )  # fmt: skip


def delivery_of(row: tuple[Any, ...]) -> Delivery:
    return Delivery(
        target=row[0], priority=row[1], turn=row[2], organization=row[3], confirmed=row[4],
        placed=row[5], sequence=row[6], id=row[7], generation=row[8], version=row[9],
        place=Place(row[10]), state=State(row[11]), at=row[12], expires_at=row[13], token=row[14],
        send=row[15], size=row[16], fingerprint=row[17],
        counted=tuple(row[18].split(BETWEEN)) if row[18] else (), lease=lease_of(row[19]),
        memo=memo_of(row[20]),
    )  # fmt: skip


def message_row(message: Message, pointed: int) -> tuple[Any, ...]:
    facts = msgpack.encode(replace(message, body=None))
    return (
        message.send, message.id, message.organization, message.holders, pointed, facts,
        message.body,
    )  # fmt: skip


def message_of(holders: int, facts: bytes, body: bytes | None) -> Message:
    return replace(_facts.decode(facts), holders=holders, body=body)
