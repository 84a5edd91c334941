"""Everything that moves between the core, the engine and a store.

Instants and spans are integers of microseconds (UTC). A target is written as one string: a queue by
its name, a channel as `channel:<name>`. What a store keeps for the core without understanding it is
bytes with a version byte in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
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

    LOGGED = "L"
    QUEUED = "Q"
    PARTLY = "S"
    RETRY = "R"
    LEASED = "F"
    COMPLETED = "X"
    KICKED = "K"
    UNCHANGED = "U"
    DECLINED = "N"
    OBSOLETE = "O"
    CANCELLED = "C"
    EXHAUSTED = "E"
    REJECTED = "I"


class Key(Struct, frozen=True, gc=False, order=True):
    """A message in one target, in its newest version (generation 0) or in a named one."""

    target: str
    organization: str
    id: str
    generation: int = 0


class EntryKey(Struct, frozen=True, gc=False, order=True):
    """A small record of the core: what it is, and its name."""

    kind: str
    name: str


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
    replaces: str | None = None
    correlation_id: str | None = None
    timestamp: str | None = None
    headers: dict[str, str] = {}
    json: bool = False  # the body was checked to be one JSON value when it was accepted
    body: bytes | None = b""  # None once no delivery needs it any more
    holders: int = 1  # how many need the body: deliveries, and what is parked


class Lease(Struct, frozen=True, gc=False, array_like=True):
    """Who was granted a delivery. It stays on the record after the lease, to know the holder again."""

    claim: bytes  # random, new for each claim: what makes an ack id unguessable
    since: int
    window: int
    consumer: str = ""
    service: str = "default"
    under: str = ""  # the id of the target as it was then


class Attempt(Struct, frozen=True, gc=False, array_like=True):
    """A lease that ended, and how."""

    consumer: str
    since: int
    until: int
    outcome: str


class Parked(Struct, frozen=True, gc=False):
    """A newer version behind a lease; it becomes ready when the lease ends."""

    generation: int
    send: str
    size: int
    fingerprint: bytes
    priority: int
    available_at: int
    ttl: int
    name: str | None = None
    confirmations: int = 1


class Memo(Struct, frozen=True, gc=False, omit_defaults=True):
    """What differs from birth. Opaque to a store, which keeps b"" while nothing does."""

    deliveries: int = 0  # leases that ended; the running one counts when it ends
    retries: int = 0
    requeues: int = 0
    errors: int = 0
    pulses: int = 0
    pulse_at: int | None = None
    redelivered: bool = False
    reason: str | None = None  # why it ended or went back, of the closed list
    text: str | None = None  # … and in the application's own words
    code: str | None = None
    severity: str | None = None
    verb: str | None = None  # what ended the last lease: the holder's repeat is known by it
    name: str | None = None  # the `replaces` name that it took
    confirmations: int = 1
    highest: int = 0  # the largest generation given, where that is larger than its own
    parked: Parked | None = None
    confirms: tuple[tuple[int, bytes], ...] = ()  # tokens and claims of those who confirmed
    successor: str | None = None  # the id of what replaced it
    copy_of: str | None = None
    copied_as: str | None = None
    available: int | None = None  # when it could first be leased, once a lease has ended
    attempts: tuple[Attempt, ...] = ()


BORN: Final = Memo()


class Delivery(Struct, frozen=True, gc=False, kw_only=True):
    """One version of a message in one target: narrow, and the only thing with a state."""

    target: str
    organization: str
    id: str
    generation: int
    version: int = 1  # one more at each write; what a guard compares
    place: Place
    state: State
    priority: int
    turn: int = 0  # where its organization stands in the walk; part of its lane
    confirmed: str = ""  # who confirmed it, sorted, one a line; part of its lane
    placed: int  # its place in line: the instant of becoming available …
    sequence: int  # … then this number, given by the engine
    at: int  # waiting: available from; leased: the deadline; at rest: since
    expires_at: int
    token: int = 0  # larger at each grant; 0 before the first
    send: str
    size: int  # bytes of the body, so that a claim can stop before a reply grows too large
    fingerprint: bytes
    counted: tuple[str, ...] = ()  # counters in which its lease counts
    lease: Lease | None = None  # the running or the last one
    memo: Memo = BORN

    @property
    def the_key(self) -> Key:
        return Key(self.target, self.organization, self.id)


class Entry(Struct, frozen=True, gc=False):
    """A small record of the core: a head, a name, a target's settings, a task … (core/entries.py)."""

    kind: str
    name: str
    version: int
    value: bytes

    @property
    def the_key(self) -> EntryKey:
        return EntryKey(self.kind, self.name)


Record = Delivery | Entry
AnyKey = Key | EntryKey


class Hold(Enum):
    """What a put over a leased delivery asks of the lease."""

    ANY = 0
    RUNS = 1  # its deadline is ahead
    OVER = 2  # its deadline is behind


class Put(Struct, frozen=True, gc=False):
    """Write `now` over `was`, if `was` is still what is there (None: nothing is)."""

    now: Record
    was: Record | None = None
    hold: Hold = Hold.ANY
    beside: bool = False  # a version at rest, next to what is open; no such generation is there yet
    forgets: str | None = None  # the send whose body this delivery needs no more


class Removal(Struct, frozen=True, gc=False):
    """An entry, or a version at rest, that goes if it is still so."""

    gone: Record
    forgets: str | None = None  # the send whose body it needed until now


class Change(Struct, frozen=True, gc=False):
    """All of it or nothing."""

    puts: tuple[Put, ...]
    events: tuple[Event, ...]
    messages: tuple[Message, ...] = ()
    removes: tuple[Removal, ...] = ()
    holds: tuple[tuple[EntryKey, int], ...] = ()  # entries that must have this version (0: absent)


class Conflict(Struct, frozen=True):
    """Nothing of the change happened. Every record that it names, as it is now."""

    found: Mapping[AnyKey, Record | None]


class Lane(Struct, frozen=True, gc=False, order=True):
    """The deliveries of a target that wait in one line. Compared whole."""

    priority: int
    turn: int  # where its organization stands in the walk
    organization: str
    confirmed: str = ""


class Front(Struct, frozen=True, gc=False):
    """What a store tells of a lane: how many wait and are leased, and when its first is available."""

    lane: Lane
    waiting: int
    leased: int
    available_at: int | None  # perhaps in the future; None where none waits


class Tally(Struct, frozen=True, gc=False):
    """Lanes of a target and priority behind a cursor, and the target's counters. May be stale."""

    fronts: list[Front]
    organizations: int  # how many have something that waits, in all lanes of the priority
    counters: dict[str, int]


class Load(Struct, frozen=True, gc=False):
    """What a target holds: waiting and leased, with the bytes of their bodies; and at rest."""

    queued: int = 0
    bytes: int = 0
    history: int = 0
    dead: int = 0


class Demand(Struct, frozen=True, gc=False):
    """Up to `limit` of one lane, first in line first, while none of the counters `caps` is full."""

    target: str
    lane: Lane
    limit: int
    caps: tuple[str, ...] = ()


class Stamp(Struct, frozen=True, gc=False):
    """What a claim writes on each delivery that it takes, and how far it may go."""

    lease: Lease
    now: int
    deadline: int
    limit: int
    room: int  # bytes of bodies in all; the first delivery is granted whatever its size
    full_at: dict[str, int] = {}  # how far a counter may go; one that is not named has no bound
    auto: bool = False  # acknowledged by the grant itself


class Claim(Struct, frozen=True, gc=False):
    """What one receive asks of the store: demands walked in order, under one stamp."""

    demands: tuple[Demand, ...]
    stamp: Stamp
    holds: tuple[tuple[EntryKey, int], ...] = ()


class Grant(Struct, frozen=True, gc=False):
    """A delivery leased to the asker, with its message."""

    delivery: Delivery
    message: Message


class Page(Struct, frozen=True, gc=False):
    """Some deliveries of a scan, how many rows were looked at, and where the next page begins."""

    found: list[Delivery]
    looked_at: int
    after: str | None


class Filter(Struct, frozen=True, gc=False):
    """What a scan may ask for; a closed set. None: any."""

    target: str | None = None
    organization: str | None = None
    state: str | None = None
    reason: str | None = None
    object: str | None = None
    key: str | None = None
    topic: str | None = None  # a prefix
    since: int | None = None  # `at`, from here …
    until: int | None = None  # … and before here


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
VERSION: Final = b"\x01"
_memo = msgpack.Decoder(Memo)
_lease = msgpack.Decoder(Lease)
_encode = msgpack.Encoder().encode


def packed_memo(memo: Memo) -> bytes:
    return b"" if memo == BORN else VERSION + _encode(memo)


def memo_of(packed: bytes) -> Memo:
    return _memo.decode(unversioned(packed)) if packed else BORN


def packed_lease(lease: Lease | None) -> bytes:
    return b"" if lease is None else VERSION + _encode(lease)


def lease_of(packed: bytes) -> Lease | None:
    return _lease.decode(unversioned(packed)) if packed else None


def unversioned(packed: bytes) -> bytes:
    if packed[:1] != VERSION:
        raise ValueError(f"record of version {packed[:1]!r}; this Fairway reads {VERSION!r}")
    return packed[1:]
