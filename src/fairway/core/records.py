"""Everything that moves between the core, the engine and a store.

Instants and spans are integers of microseconds (UTC). A target is written as one string: the
queue's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final

from msgspec import Struct, field, msgpack

from fairway.core.events import Event


class Place(IntEnum):
    """Where a delivery is. All that a store knows of its state."""

    WAITING = 1
    LEASED = 2
    HISTORY = 3
    DEAD = 4


class State(StrEnum):
    """What a delivery is, by the letter that is stored and shown."""

    QUEUED = "Q"
    RETRY = "R"
    LEASED = "F"
    COMPLETED = "X"
    OBSOLETE = "O"
    EXHAUSTED = "E"
    REJECTED = "I"


class Key(Struct, frozen=True, gc=False, order=True):
    """A message in one target; one delivery of a key is open at a time."""

    target: str
    organization: str
    id: str


class Message(Struct, frozen=True, gc=False, kw_only=True):
    """What a producer gave, in one send. Immutable; deliveries point to it by `send`."""

    send: str
    id: str
    organization: str
    created: int
    mime_type: str
    topics: list[str] = []
    object: str | None = None
    key: str | None = None
    correlation_id: str | None = None
    timestamp: str | None = None
    headers: dict[str, str] = {}
    json: bool = False  # the body was checked to be one JSON value when it was accepted
    body: bytes = b""


class Lease(Struct, frozen=True, gc=False, array_like=True):
    """Who was granted a delivery. It stays on the record after the lease, to know the holder again."""

    claim: bytes  # random, new for each claim: what makes an ack id unguessable
    since: int
    window: int
    consumer: str = ""
    service: str = "default"


class Memo(Struct, frozen=True, gc=False, omit_defaults=True):
    """What differs from birth. Opaque to a store, which keeps b"" while nothing differs."""

    deliveries: int = 0  # leases that ended; the running one counts when it ends
    retries: int = 0
    errors: int = 0
    redelivered: bool = False
    reason: str | None = None  # why the last lease ended, of the closed list
    text: str | None = None  # … and in the application's own words
    code: str | None = None
    severity: str | None = None


BORN: Final = Memo()


class Delivery(Struct, frozen=True, gc=False, kw_only=True):
    """One version of a message in one target: narrow, and the only thing with a state."""

    target: str
    organization: str
    id: str
    generation: int
    place: Place
    state: State
    priority: int
    placed: int  # its place in line: the instant of becoming available …
    sequence: int  # … then this number, given by the engine
    at: int  # waiting: available from; leased: the deadline; at rest: since
    token: int = 0  # larger at each grant; 0 before the first
    send: str
    size: int  # bytes of the body, so that a claim can stop before a reply grows too large
    fingerprint: bytes
    lease: Lease | None = None  # the running or the last one
    memo: Memo = BORN

    @property
    def the_key(self) -> Key:
        return Key(self.target, self.organization, self.id)


class Put(Struct, frozen=True, gc=False):
    """Write `now`, if `was` is still the newest of its key (None: there is none)."""

    now: Delivery
    was: Delivery | None = None
    lapsed: bool = False  # `was` is a lease that must be over; else it must still hold


class Change(Struct, frozen=True, gc=False):
    """All of it or nothing."""

    puts: tuple[Put, ...]
    events: tuple[Event, ...]
    messages: tuple[Message, ...] = ()


class Conflict(Struct, frozen=True):
    """Nothing of the change happened. The newest of every key that it names, as it is now."""

    found: Mapping[Key, Delivery | None]


class Lane(Struct, frozen=True, gc=False, order=True):
    """The deliveries of a target that wait in one line."""

    priority: int
    organization: str


class Front(Struct, frozen=True, gc=False):
    """The head of a lane: when its first delivery is available (perhaps in the future)."""

    lane: Lane
    available_at: int


class Demand(Struct, frozen=True, gc=False):
    """Up to `limit` of one lane, first in line first."""

    target: str
    lane: Lane
    limit: int


class Stamp(Struct, frozen=True, gc=False):
    """What a claim writes on each delivery that it takes, and how many it may take in all."""

    lease: Lease
    now: int
    deadline: int
    limit: int
    room: int  # bytes of bodies in all; the first delivery is granted whatever its size


class Claim(Struct, frozen=True, gc=False):
    """What one receive asks of the store: demands walked in order, under one stamp."""

    demands: tuple[Demand, ...]
    stamp: Stamp


class Grant(Struct, frozen=True, gc=False):
    """A delivery leased to the asker, with its message."""

    delivery: Delivery
    message: Message


class Block(Struct, frozen=True, gc=False):
    """Packed events that lie one behind the other in a shard (see core/events.py)."""

    first: int
    count: int
    data: bytes


class ShardState(Struct, frozen=True, gc=False):
    """What can be read of a shard: `earliest` to `latest` (latest = earliest − 1 when empty)."""

    shard: int
    earliest: int
    latest: int


class LogState(Struct, frozen=True, gc=False):
    """`log` is the identity of the log: another one after a wipe or a restore."""

    log: str
    shards: list[ShardState] = field(default_factory=list[ShardState])


# Forms in which a store keeps the core's own parts: a version byte, then MessagePack.
_VERSION: Final = b"\x01"
_memo = msgpack.Decoder(Memo)
_lease = msgpack.Decoder(Lease)
_encode = msgpack.Encoder().encode


def packed_memo(memo: Memo) -> bytes:
    return b"" if memo == BORN else _VERSION + _encode(memo)


def memo_of(packed: bytes) -> Memo:
    return _memo.decode(_body(packed)) if packed else BORN


def packed_lease(lease: Lease | None) -> bytes:
    return b"" if lease is None else _VERSION + _encode(lease)


def lease_of(packed: bytes) -> Lease | None:
    return _lease.decode(_body(packed)) if packed else None


def _body(packed: bytes) -> bytes:
    if packed[:1] != _VERSION:
        raise ValueError(f"record of version {packed[:1]!r}; this Fairway reads {_VERSION!r}")
    return packed[1:]
