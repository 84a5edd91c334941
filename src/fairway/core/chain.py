"""What a send does in one target: same id? → unchanged? → replaces → place.

Called for one message by the broker, and for the messages of a batch in their order by whoever
places what was only logged. The three comparisons depend on each other and are never split.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from fairway.core.entries import (
    HEAD,
    NAME,
    Head,
    Known,
    Name,
    Target,
)
from fairway.core.errors import Duplicate, FairwayError, QueueFull
from fairway.core.events import Event
from fairway.core.fairness import turn_of
from fairway.core.lifecycle import PLACES, STANDS, Row, Verb, When, step
from fairway.core.plan import Chance
from fairway.core.records import (
    Delivery,
    EntryKey,
    Key,
    Load,
    Memo,
    Parked,
    Place,
    Put,
    State,
)
from fairway.core.send import Accepted, Outcome
from fairway.core.versions import end_parked, end_waiting, unparked


class Verdict(Struct, frozen=True, gc=False):
    """What a send does in one target."""

    outcome: Outcome
    puts: tuple[Put, ...] = ()
    events: tuple[Event, ...] = ()
    holders: int = 0  # deliveries that need the body
    keeps: bool = False  # something points to the message, though perhaps not to its body
    error: FairwayError | None = None


class Here(Struct, frozen=True, gc=False):
    """One send in one target: all that a step of the chain looks at."""

    ask: Accepted
    target: str
    entry: Target
    fingerprint: bytes
    topics: list[str]
    known: Known
    load: Load
    now: int
    chance: Chance
    head: EntryKey | None  # of the message's object and key
    name: EntryKey | None  # that it replaces
    changed: bool = False  # its batch has shown that it differs from the head before it …
    renewed: bool = False  # … from the version of its id before it

    @property
    def key(self) -> Key:
        return Key(self.target, self.ask.message.organization, self.ask.message.id)


def judge(here: Here) -> Verdict:
    """Same id? unchanged? replaces: then its place in line."""
    newest = here.known.delivery_if_any(here.key)
    row = _same_id(here, newest)
    if row is not None and row.refuse is not None:
        assert newest is not None
        same = _newest_print(newest) == here.fingerprint
        error = Duplicate(f"{newest.id} was sent to {here.target} before", sameContent=same)
        return Verdict(Outcome(here.target, "refused"), error=error)
    if row is not None and row.event == "duplicate":
        return duplicate(here, newest)
    if _unchanged(here):
        return unchanged(here, newest)
    if (row is None or row.to is None) and _is_full(here):
        error = QueueFull(f"{here.target} holds as many messages as it may: try again later")
        return Verdict(Outcome(here.target, "refused"), error=error)
    if row is None:
        placed = _new(here, newest)
    elif row.to is None:
        placed = _park(here, newest)
    else:
        placed = _take_the_place(here, newest, row)
    return _with_names(here, placed)


# --- same id


def _same_id(here: Here, newest: Delivery | None) -> Row | None:
    if newest is None:
        return None
    facts: set[When] = set()
    settings = here.entry.settings
    ended = newest.place in (Place.HISTORY, Place.DEAD)
    if not ended or here.now - newest.at < settings.duplication_window:
        policy = settings.duplicate
        if _newest_print(newest) == here.fingerprint and not here.renewed:
            facts.add(When.CLASH if policy == "error" else When.SAME)
        elif policy != "update":
            facts.add(When.CLASH if policy == "error" else When.IGNORE)
    return step(Verb.SEND, newest.place, facts)


def _newest_print(newest: Delivery) -> bytes:
    return newest.memo.parked.fingerprint if newest.memo.parked else newest.fingerprint


def duplicate(here: Here, newest: Delivery | None) -> Verdict:
    """Nothing changes; that it was sent, and why it was not placed, is in the log."""
    assert newest is not None
    event = Event(
        at=here.now, letter="D", kind="duplicate", target=here.target,
        organization=newest.organization, id=newest.id, generation=newest.generation,
        fingerprint=here.fingerprint, cause=newest.send, send_id=here.ask.message.send,
    )  # fmt: skip
    outcome = Outcome(here.target, "duplicate", newest.state, newest.generation)
    return Verdict(outcome, events=(event,))


# --- unchanged


def head_key(ask: Accepted, target: str) -> EntryKey | None:
    message = ask.message
    if message.object is None or message.key is None:
        return None
    return HEAD.key(target, message.organization, message.object, message.key)


def _unchanged(here: Here) -> bool:
    """An equal head whose message is another one, and is open or ended well."""
    key = here.head
    if key is None or here.changed or here.entry.settings.unchanged != "drop":
        return False
    entry = here.known.entry(key)
    if entry is None:
        return False
    head = HEAD.read(entry)
    if head.fingerprint != here.fingerprint or head.id == here.ask.message.id:
        return False
    named = here.known.delivery(replace(here.key, id=head.id, generation=head.generation))
    if named is None:
        return False
    return named.place in (Place.WAITING, Place.LEASED) or named.state in STANDS


def unchanged(here: Here, newest: Delivery | None) -> Verdict:
    """It replaces nothing, takes no name and is nobody's newer version; the head names it."""
    state = State.UNCHANGED
    ended = replace(
        new_delivery(here, next_generation(newest)), place=PLACES[state], state=state, at=here.now
    )
    puts = [*to_rest(ended, newest)]
    puts += _head_puts(here, ended)
    event = replace(event_of(here, ended, "unchanged"), available_at=None)
    outcome = Outcome(here.target, "unchanged", state, ended.generation)
    return Verdict(outcome, tuple(puts), (event,), keeps=True)


def to_rest(ended: Delivery, newest: Delivery | None) -> list[Put]:
    """A version that never waits: over one at rest, else beside what is open, which is left alone
    but for the number that is given now."""
    if newest is None or newest.place in (Place.HISTORY, Place.DEAD):
        return [Put(ended, newest)]
    memo = replace(newest.memo, highest=ended.generation)
    return [
        Put(replace(newest, version=newest.version + 1, memo=memo), newest),
        Put(ended, beside=True),
    ]


def _head_puts(here: Here, placed: Delivery | Parked) -> list[Put]:
    key = here.head
    if key is None:
        return []
    was = here.known.entry(key)
    head = Head(here.fingerprint, here.ask.message.id, placed.generation)
    return [Put(HEAD.next(was, key, head, here.now), was)]


def obsolete(here: Here, successor: str | None) -> tuple[list[Put], list[Event]]:
    """Ends a send as what it would have been: a version that was replaced before anybody saw it."""
    newest = here.known.delivery(here.key)
    puts, events = list[Put](), list[Event]()
    send = here.ask.message.send
    if newest is not None and newest.place is Place.WAITING:
        row = step(Verb.SEND, Place.WAITING, ())
        assert row is not None
        puts, events = end_waiting(newest, row, here.now, newest.id, send)
    elif newest is not None and newest.memo.parked is not None:
        row = Row(Verb.SEND, Place.LEASED, When.ALWAYS, event="obsolete")
        puts, events = end_parked(newest, State.OBSOLETE, row, here.now, newest.id, send)
    left = puts[0].now if puts else newest
    assert left is None or isinstance(left, Delivery)
    state = State.OBSOLETE
    born = new_delivery(here, next_generation(left))
    ended = replace(
        born, place=PLACES[state], state=state, at=here.now,
        memo=replace(born.memo, successor=successor),
    )  # fmt: skip
    event = replace(event_of(here, ended, "obsolete"), available_at=None, cause=successor)
    verdict = Verdict(
        Outcome(here.target, "obsolete"), (*puts, *to_rest(ended, left)), (*events, event)
    )
    made = _with_names(here, (ended, verdict))
    return list(made.puts), list(made.events)


# --- replaces


def name_key(ask: Accepted, target: str) -> EntryKey | None:
    message = ask.message
    if message.replaces is None:
        return None
    return NAME.key(target, message.organization, message.replaces)


def _with_names(here: Here, placed: tuple[Delivery | Parked, Verdict]) -> Verdict:
    """Takes the head and the `replaces` name; what waited under that name ends."""
    new, verdict = placed
    key = here.name
    if key is None and here.head is None:
        return verdict
    puts, events = list(verdict.puts), list(verdict.events)
    if key is not None:
        was = here.known.entry(key)
        name = Name(here.ask.message.id, new.generation)
        puts.append(Put(NAME.next(was, key, name, here.now), was))
        if was is not None:
            ended = _end_named(here, NAME.read(was))
            puts = [*ended[0], *puts]
            events = [*ended[1], *events]
    puts += _head_puts(here, new)
    return replace(verdict, puts=tuple(puts), events=tuple(events))


def _end_named(here: Here, name: Name) -> tuple[list[Put], list[Event]]:
    if name.id == here.ask.message.id:
        return [], []  # its own older version: the same id was looked at already
    named = here.known.delivery(replace(here.key, id=name.id))
    if named is None:
        return [], []
    parked = named.memo.parked
    is_parked = parked is not None and parked.generation == name.generation
    if not is_parked and named.generation != name.generation:
        return [], []
    row = step(Verb.REPLACE, named.place, {When.PARKED} if is_parked else ())
    if row is None:
        if named.place is not Place.LEASED:
            return [], []
        # It goes on, but a settle that was decided without this send must be decided again.
        return [Put(replace(named, version=named.version + 1), named)], []
    successor, send = here.ask.message.id, here.ask.message.send
    if row.to is None:
        assert parked is not None
        return end_parked(named, State.OBSOLETE, row, here.now, successor, send)
    return end_waiting(named, row, here.now, successor, send)


# --- place


def _is_full(here: Here) -> bool:
    settings = here.entry.settings
    size = len(here.ask.message.body or b"")
    return (
        here.load.queued >= settings.max_queued
        or here.load.bytes + size > settings.max_queued_bytes
    )


def _new(here: Here, ended: Delivery | None) -> tuple[Delivery, Verdict]:
    """A new message, or a new version of one that ended: to the end of its line."""
    born = new_delivery(here, next_generation(ended))
    return born, _placed(here, (Put(born, ended),), (event_of(here, born, "queued"),), born)


def _take_the_place(here: Here, waiting: Delivery | None, row: Row) -> tuple[Delivery, Verdict]:
    """The newer version takes the place in line, unless priority or delay are others."""
    assert waiting is not None
    born = new_delivery(here, next_generation(waiting))
    delayed = waiting.state is State.QUEUED and waiting.at > here.now
    if born.priority == waiting.priority and not here.ask.delay and not delayed:
        born = replace(born, placed=waiting.placed, sequence=waiting.sequence, at=waiting.at)
    puts, events = end_waiting(waiting, row, here.now, waiting.id, here.ask.message.send)
    ended = puts[0].now
    event = event_of(here, born, "updated")
    return born, _placed(here, (*puts, Put(born, ended)), (*events, event), born, "updated")


def _park(here: Here, leased: Delivery | None) -> tuple[Parked, Verdict]:
    """Behind the lease, so that two workers never hold two versions of one id."""
    assert leased is not None
    settings = here.entry.settings
    message = here.ask.message
    parked = Parked(
        generation=next_generation(leased), send=message.send, size=len(message.body or b""),
        fingerprint=here.fingerprint, priority=here.ask.priority,
        available_at=here.now + here.ask.delay, ttl=here.ask.ttl or settings.message_ttl,
        name=message.replaces, confirmations=settings.confirmations,
    )  # fmt: skip
    was, puts, events = leased, list[Put](), list[Event]()
    if leased.memo.parked is not None:
        row = Row(Verb.SEND, Place.LEASED, When.ALWAYS, event="obsolete")
        puts, events = end_parked(leased, State.OBSOLETE, row, here.now, leased.id, message.send)
        found = puts[0].now
        assert isinstance(found, Delivery)
        was = found
    told = replace(was.memo, parked=parked, highest=0)
    puts.append(Put(replace(was, version=was.version + 1, memo=told), was))
    event = replace(
        event_of(here, unparked(leased, parked, here.now, 0), "updated"),
        reason="parked", available_at=None,
    )  # fmt: skip
    outcome = Outcome(here.target, "updated", State.QUEUED, parked.generation, parked=True)
    return parked, Verdict(outcome, tuple(puts), (*events, event), holders=1, keeps=True)


def _placed(
    here: Here,
    puts: tuple[Put, ...],
    events: tuple[Event, ...],
    born: Delivery,
    outcome: str = "queued",
) -> Verdict:
    answer = Outcome(here.target, outcome, born.state, born.generation)
    return Verdict(answer, puts, events, holders=1, keeps=True)


def next_generation(newest: Delivery | None) -> int:
    if newest is None:
        return 1
    parked = newest.memo.parked.generation if newest.memo.parked else 0
    return max(newest.generation, newest.memo.highest, parked) + 1


def new_delivery(here: Here, generation: int) -> Delivery:
    ask, settings = here.ask, here.entry.settings
    available = here.now + ask.delay
    name, confirmations = ask.message.replaces, settings.confirmations
    return Delivery(
        target=here.target, organization=ask.message.organization, id=ask.message.id,
        generation=generation, place=Place.WAITING, state=State.QUEUED, priority=ask.priority,
        turn=turn_of(ask.message.organization), placed=available, sequence=here.chance.sequence,
        at=available, expires_at=available + (ask.ttl or settings.message_ttl), send=ask.message.send,
        size=len(ask.message.body or b""), fingerprint=here.fingerprint,
        memo=Memo(name=name, confirmations=confirmations),
    )  # fmt: skip


# --- events


def event_of(here: Here, born: Delivery, kind: str) -> Event:
    message = here.ask.message
    return Event(
        at=here.now, letter=born.state, kind=kind, target=born.target,
        organization=born.organization, id=born.id, generation=born.generation,
        priority=born.priority, size=born.size, fingerprint=born.fingerprint,
        object=message.object, key=message.key, topics=here.topics, available_at=born.at,
        send_id=message.send,
    )  # fmt: skip
