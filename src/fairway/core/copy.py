"""Recover and replay: a copy of a dead letter, or of a finished message, with a new id.

The copy starts anew in the same target: all counters 0, a ttl from now. It looks at no window, head
or name. Original and copy name each other.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from fairway.core.entries import NAME, Known
from fairway.core.events import Event
from fairway.core.lifecycle import Verb, When, step
from fairway.core.records import Delivery, Memo, Message, Place, Put, State
from fairway.core.settings import Settings


class Terms(Struct, frozen=True, gc=False):
    """What a copy may have other than its original."""

    priority: int | None = None
    delay: int = 0
    ttl: int | None = None


class Copied(Struct, frozen=True, gc=False):
    """What became of one original: a copy, or the reason why there is none."""

    skipped: str | None = None
    puts: tuple[Put, ...] = ()
    events: tuple[Event, ...] = ()
    messages: tuple[Message, ...] = ()


def copy(
    verb: Verb,
    original: Delivery,
    message: Message | None,
    task: str,
    terms: Terms,
    rules: Settings,
    known: Known,
    now: int,
    sequence: int,
) -> Copied:
    """One copy, decided on what is known of the original's newest version and of its name."""
    row = step(verb, original.place, _facts(original, known))
    assert row is not None  # a task looks for its rows in the place that its verb is for
    if row.refuse is not None:
        return Copied(skipped=row.refuse)
    if message is None or message.body is None:
        return Copied(skipped="no-body")
    id = new_id(task, original)
    sent = replace(message, send=id, id=id, created=now, replaces=None, holders=1)
    born = _born(original, id, terms, rules, now, sequence)
    noted = replace(
        original, version=original.version + 1, memo=replace(original.memo, copied_as=id)
    )
    told = _event(original, row.event or "", original.state, now, id)
    queued = replace(
        _event(born, "queued", born.state, now, original.id),
        size=born.size, fingerprint=born.fingerprint, available_at=born.at, object=sent.object,
        key=sent.key, topics=sent.topics,
    )  # fmt: skip
    return Copied(None, (Put(noted, original), Put(born)), (told, queued), (sent,))


def new_id(task: str, original: Delivery) -> str:
    """The same for the same task and original: a page that is done again makes no second copy."""
    named = f"{task}\n{original.target}\n{original.organization}\n{original.id}\n"
    digest = blake2b(f"{named}{original.generation}".encode(), digest_size=16)
    return f"copy-{digest.hexdigest()}"


def _facts(original: Delivery, known: Known) -> set[When]:
    facts: set[When] = set()
    if original.memo.copied_as is not None:
        facts.add(When.COPIED)
    newest = known.delivery(original.the_key)
    if newest is not None and newest.generation > original.generation:
        facts.add(When.NEWER)
    if original.memo.name is not None:
        entry = known.entry(NAME.key(original.target, original.organization, original.memo.name))
        name = NAME.read(entry) if entry is not None else None
        if name is not None and (name.id, name.generation) != (original.id, original.generation):
            facts.add(When.NEWER)
    return facts


def _born(
    original: Delivery, id: str, terms: Terms, rules: Settings, now: int, sequence: int
) -> Delivery:
    available = now + terms.delay
    return Delivery(
        target=original.target, organization=original.organization, id=id, generation=1,
        place=Place.WAITING, state=State.QUEUED, priority=terms.priority or original.priority,
        turn=original.turn, placed=available, sequence=sequence, at=available,
        expires_at=now + (terms.ttl or rules.message_ttl), send=id, size=original.size,
        fingerprint=original.fingerprint,
        memo=Memo(copy_of=original.id, confirmations=rules.confirmations),
    )  # fmt: skip


def _event(of: Delivery, kind: str, letter: State, now: int, cause: str) -> Event:
    return Event(
        at=now, letter=letter, kind=kind, target=of.target, organization=of.organization, id=of.id,
        generation=of.generation, priority=of.priority, cause=cause, send_id=of.send,
    )  # fmt: skip
