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
    "target, priority, organization, placed, sequence, id, generation, place, state, at, token, "
    "send, size, fingerprint, lease, memo"
)
MARKS: Final = ", ".join("?" * len(COLUMNS.split(", ")))
TABLES: Final = {
    Place.WAITING: "waiting",
    Place.LEASED: "leased",
    Place.HISTORY: "rest",
    Place.DEAD: "rest",
}

_facts = msgpack.Decoder(Message)


def row_of(d: Delivery) -> tuple[Any, ...]:
    return (
        d.target, d.priority, d.organization, d.placed, d.sequence, d.id, d.generation,
        int(d.place), d.state.value, d.at, d.token, d.send, d.size, d.fingerprint,
        packed_lease(d.lease), packed_memo(d.memo),
    )  # fmt: skip


def delivery_of(row: tuple[Any, ...]) -> Delivery:
    return Delivery(
        target=row[0], priority=row[1], organization=row[2], placed=row[3], sequence=row[4],
        id=row[5], generation=row[6], place=Place(row[7]), state=State(row[8]), at=row[9],
        token=row[10], send=row[11], size=row[12], fingerprint=row[13], lease=lease_of(row[14]),
        memo=memo_of(row[15]),
    )  # fmt: skip


def message_row(message: Message) -> tuple[str, bytes, bytes]:
    return message.send, msgpack.encode(replace(message, body=b"")), message.body


def message_of(facts: bytes, body: bytes) -> Message:
    return replace(_facts.decode(facts), body=body)
