"""Work in pages that outlives a restart: purge, forced delete, recover, replay.

A task is one record. Each page is one change: what becomes of its rows, and how far the task is. So
a page that was cut is done again as a whole, and one that is done is never done twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import limits
from fairway.core.copy import Copied, Terms, copy
from fairway.core.entries import BETWEEN, NAME, PENDING, TARGET, Kind, Known, Need, Unknown
from fairway.core.errors import FairwayError, InvalidInput, NotFound
from fairway.core.events import Event
from fairway.core.lifecycle import Verb, When, step
from fairway.core.limits import SECOND
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Change,
    Delivery,
    Entry,
    EntryKey,
    Filter,
    Key,
    Message,
    Page,
    Place,
    Put,
    Removal,
    State,
)
from fairway.core.send import PRIORITIES, check_span
from fairway.core.versions import end_parked, end_waiting

RUNNING, DONE, CANCELLED = "running", "done", "cancelled"
# Where a verb finds its rows, one place after the other; None: what waits for the pipeline.
PLACES = {
    Verb.PURGE: (None, Place.WAITING, Place.LEASED),
    Verb.DELETE: (None, Place.WAITING, Place.LEASED),
    Verb.RECOVER: (Place.DEAD,),
    Verb.REPLAY: (Place.HISTORY,),
}


class Task(Struct, frozen=True, gc=False, kw_only=True):
    """What is to be done, how far it is, and in the end its answer."""

    id: str
    verb: Verb
    target: str
    where: Filter
    terms: Terms = Terms()
    rate: int = limits.COPIES_PER_SECOND
    dry_run: bool = False
    created: int
    state: str = RUNNING
    step: int = 0  # which of the verb's places
    after: str = ""  # the cursor in it
    not_before: int = 0  # the next page waits for this instant
    done: int = 0
    skipped: dict[str, int] = {}


TASK = Kind("task", Task)


class Begin(Struct, frozen=True, gc=False):
    """Somebody wants a task; a repeat of its id (the ticket) answers the task that is there."""

    task: Task

    @property
    def key(self) -> EntryKey:
        return TASK.key(self.task.id)


class Turn(Struct, frozen=True, gc=False):
    """The next page of a task: the rows that a scan found, with their messages; or sends that wait
    for the pipeline."""

    id: str
    page: Page
    messages: Mapping[str, Message | None]
    step: int  # where the task was when the page was read
    after: str
    pending: Sequence[Entry] = ()

    @property
    def key(self) -> EntryKey:
        return TASK.key(self.id)


def check(task: Task) -> Task:
    """The same task, or the error that names the field."""
    if not 1 <= task.rate <= limits.RATE:
        raise InvalidInput("rate", f"must be 1 to {limits.RATE} a second")
    terms = task.terms
    if terms.priority is not None and terms.priority not in PRIORITIES.values():
        raise InvalidInput("priority", f"{terms.priority} is not 1 (urgent) to 4 (low)")
    check_span("delayMs", terms.delay, 0)
    if terms.ttl is not None:
        check_span("ttlMs", terms.ttl, 1)
    return task


def first_needs(ask: Begin | Turn) -> tuple[AnyKey, ...]:
    if isinstance(ask, Begin):
        return (ask.key,)
    keys: list[AnyKey] = [ask.key, *(entry.the_key for entry in ask.pending)]
    for row in ask.page.found:
        keys += [TARGET.key(row.target), row.the_key, _version(row)]
        if row.memo.name is not None:
            keys.append(NAME.key(row.target, row.organization, row.memo.name))
    return tuple(keys)


def begin(ask: Begin, known: Known, now: int, chance: Chance) -> Plan[Task] | Task | Need:
    try:
        there = known.entry(ask.key)
    except Unknown as unknown:
        return Need(unknown.keys)
    if there is not None:
        return TASK.read(there)
    made = replace(ask.task, created=now)
    return Plan(Change((Put(TASK.next(None, ask.key, made, now)),), ()), made)


def is_over(task: Task, now: int) -> bool:
    """Whether its answer need not be remembered any longer."""
    return task.state != RUNNING and task.created < now - limits.TASK_KEPT


def wants(task: Task) -> tuple[Place | None, Filter, str] | None:
    """What to scan for the next page (place None: pending entries); None when there is none."""
    if task.state != RUNNING:
        return None
    where = task.where
    if task.verb in (Verb.RECOVER, Verb.REPLAY):  # not what came to rest since, its copies least
        until = task.created if where.until is None else min(where.until, task.created)
        where = replace(where, until=until)
    return PLACES[task.verb][task.step], where, task.after


def turn(
    ask: Turn, known: Known, now: int, chance: Chance
) -> Plan[Task] | Task | Need | FairwayError:
    """One page as one change, with the task's progress in it."""
    try:
        entry = known.entry(ask.key)
        if entry is None:
            return NotFound(f"there is no task {ask.id}")
        task = TASK.read(entry)
        if task.state != RUNNING or (task.step, task.after) != (ask.step, ask.after):
            return task  # another engine was there first
        return _turn(ask, task, entry, known, now, chance)
    except Unknown as unknown:
        return Need(unknown.keys)


def _turn(
    ask: Turn, task: Task, entry: Entry, known: Known, now: int, chance: Chance
) -> Plan[Task]:
    results = [
        _row(task, found, ask.messages, known, now, chance.sequence + number)
        for number, found in enumerate(_as_they_are(ask.page.found, known))
    ]
    skipped = dict(task.skipped)
    for result in results:
        if result.skipped is not None:
            skipped[result.skipped] = skipped.get(result.skipped, 0) + 1
    made = sum(result.skipped is None for result in results)
    after = _moved_on(replace(task, done=task.done + made, skipped=skipped), ask.page, made, now)
    ended = [found for was in ask.pending if (found := known.entry(was.the_key)) is not None]
    if task.dry_run:
        results, ended = [], []
    change = Change(
        puts=(
            *(put for result in results for put in result.puts),
            Put(TASK.next(entry, ask.key, after, now), entry),
        ),
        events=(
            *(event for result in results for event in result.events),
            *(_unplaced(task.verb, entry, now) for entry in ended),
        ),
        removes=tuple(Removal(entry, _send_of(entry)) for entry in ended),
        messages=tuple(message for result in results for message in result.messages),
    )
    return Plan(change, after)


def _send_of(pending: Entry) -> str:
    return pending.name.rpartition(BETWEEN)[2]


def _unplaced(verb: Verb, pending: Entry, now: int) -> Event:
    """It ends before it was a delivery; a placement that comes later finds nothing to place."""
    waits = PENDING.read(pending)
    kind, reason = {
        Verb.PURGE: ("purged", "purged"),
        Verb.DELETE: ("cancelled", "target-deleted"),
    }[verb]
    return Event(
        at=now, letter=State.CANCELLED, kind=kind, target=pending.name.partition(BETWEEN)[0],
        organization=waits.organization, id=waits.id, generation=0, priority=waits.priority,
        reason=reason, send_id=_send_of(pending),
    )  # fmt: skip


def _as_they_are(rows: Sequence[Delivery], known: Known) -> list[Delivery]:
    """Each row as it is known to be by now; what moved on since the scan is left alone."""
    found = (known.delivery(_version(row)) for row in rows)
    return [
        now
        for row, now in zip(rows, found, strict=True)
        if now is not None and now.place is row.place
    ]


def _version(row: Delivery) -> Key:
    return Key(row.target, row.organization, row.id, row.generation)


def _moved_on(task: Task, page: Page, made: int, now: int) -> Task:
    """The cursor, then the next place, then done. Copies keep to their rate."""
    pause = made * SECOND // task.rate if task.verb in (Verb.RECOVER, Verb.REPLAY) else 0
    if page.after is not None:
        return replace(task, after=page.after, not_before=now + pause)
    if task.step + 1 < len(PLACES[task.verb]):
        return replace(task, step=task.step + 1, after="", not_before=now + pause)
    return replace(task, state=DONE, after="")


def _row(
    task: Task,
    row: Delivery,
    messages: Mapping[str, Message | None],
    known: Known,
    now: int,
    sequence: int,
) -> Copied:
    if task.verb in (Verb.PURGE, Verb.DELETE):
        return _end(task.verb, row, now)
    target = known.entry(TARGET.key(row.target))
    if target is None or TARGET.read(target).deleted is not None:
        return Copied(skipped="target-gone")
    rules = TARGET.read(target).settings
    message = messages.get(row.send)
    return copy(task.verb, row, message, task.id, task.terms, rules, known, now, sequence)


def _end(verb: Verb, row: Delivery, now: int) -> Copied:
    facts = {When.PARKED} if row.memo.parked is not None else set[When]()
    ends = step(verb, row.place, facts)
    if ends is None:
        return Copied(skipped="leased")
    if ends.to is None:
        puts, events = end_parked(row, State.CANCELLED, ends, now)
    else:
        puts, events = end_waiting(row, ends, now)
    return Copied(None, tuple(puts), tuple(events))
