"""Queues and channels themselves: create, alter, pause, resume, delete."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import limits, topics
from fairway.core import settings as all_settings
from fairway.core.entries import (
    DIRECTORY,
    TARGET,
    THE_DIRECTORY,
    Directory,
    Known,
    Need,
    Target,
    Unknown,
)
from fairway.core.errors import (
    Contended,
    Exists,
    FairwayError,
    InvalidInput,
    NotEmpty,
    NotFound,
    TooManyTargets,
)
from fairway.core.events import Event
from fairway.core.lifecycle import Verb
from fairway.core.plan import Chance, Plan
from fairway.core.records import AnyKey, Change, Entry, Filter, Put, Removal
from fairway.core.settings import Settings
from fairway.core.task import RUNNING, TASK, Task


class Arrange(Struct, frozen=True, gc=False):
    """What a person wants of a target: `create`, `alter`, `pause`, `resume` or `delete`; and the two
    steps of a deletion without force, `close` and `open`."""

    verb: str
    target: str
    settings: Settings | None = None
    topics: tuple[str, ...] = ()
    force: bool = False
    holds: int = 0  # deliveries in it, as the engine knows


class Arranged(Struct, frozen=True, gc=False):
    """The target as it is now, and whether anything was done."""

    name: str
    target: Target
    changed: bool


def check(ask: Arrange, holds: int) -> Arrange:
    """The same ask with what the target holds, or the error that names the field."""
    ask = replace(ask, holds=holds)
    topics.check_target(ask.target, "name")
    if ask.settings is not None:
        all_settings.check(ask.settings)
    if topics.is_channel(ask.target) and ask.verb == "create":
        return replace(ask, topics=topics.check_patterns(ask.topics))
    if ask.topics:
        raise InvalidInput("topics", "only a channel subscribes topics; a queue is named by them")
    return ask


def first_needs(ask: Arrange) -> tuple[AnyKey, ...]:
    return (TARGET.key(ask.target), THE_DIRECTORY)


def decide(
    ask: Arrange, known: Known, now: int, chance: Chance
) -> Plan[Arranged] | Arranged | Need | FairwayError:
    """What to commit, or that it is so already, or why it cannot be."""
    try:
        entry = known.entry(TARGET.key(ask.target))
        directory = known.entry(THE_DIRECTORY)
        there = TARGET.read(entry) if entry is not None else None
        if there is not None and there.deleted is not None:
            if ask.verb == "create" and is_ending(there, known):
                return Contended(f"{ask.target} is being deleted: try again in a moment")
            there = None
    except Unknown as unknown:
        return Need(unknown.keys)
    if ask.verb == "create":
        return _create(ask, entry, there, directory, now, chance)
    if there is None or entry is None:
        return NotFound(f"there is no {ask.target}")
    if ask.verb == "delete":
        return _delete(ask, entry, there, directory, now, chance)
    return _alter(ask, entry, there, now)


def _create(
    ask: Arrange,
    entry: Entry | None,
    there: Target | None,
    directory: Entry | None,
    now: int,
    chance: Chance,
) -> Plan[Arranged] | Arranged | FairwayError:
    wanted = ask.settings or Settings()
    if there is not None:
        if (there.settings, there.topics) == (wanted, ask.topics):
            return Arranged(ask.target, there, changed=False)
        return Exists(f"{ask.target} is there, with other settings: change it with PATCH")
    before = DIRECTORY.read(directory) if directory else Directory()
    if before.targets >= limits.TARGETS:
        return too_many()
    made = Target(id=f"{chance.sequence:x}", created=now, settings=wanted, topics=ask.topics)
    channels = dict(before.channels)
    if topics.is_channel(ask.target):
        channels[ask.target.removeprefix(topics.CHANNEL)] = ask.topics
    after = Directory(channels, before.targets + 1)
    puts = (
        Put(DIRECTORY.next(directory, THE_DIRECTORY, after, now), directory),
        Put(TARGET.next(entry, TARGET.key(ask.target), made, now), entry),
    )
    change = Change(puts, (_event("created", ask.target, now),))
    return Plan(change, Arranged(ask.target, made, changed=True))


def is_closing(target: Target, now: int) -> bool:
    """Whether somebody is about to delete it, if it is empty."""
    return target.closing > now - limits.CLOSING


def is_ending(tombstone: Target, known: Known) -> bool:
    """Whether its task still ends what waited: until then nothing new may wait under the name."""
    entry = known.entry(TASK.key(tombstone.ending))
    return entry is not None and TASK.read(entry).state == RUNNING


def too_many() -> TooManyTargets:
    return TooManyTargets(
        f"a store holds at most {limits.TARGETS} queues and channels: delete one, or use topics "
        "within a queue"
    )


def _alter(ask: Arrange, entry: Entry, there: Target, now: int) -> Plan[Arranged] | Arranged:
    kinds = {"alter": "altered", "pause": "paused", "resume": "resumed"}
    wanted = replace(
        there,
        settings=ask.settings or there.settings,
        paused={"pause": True, "resume": False}.get(ask.verb, there.paused),
        closing={"close": now, "open": 0}.get(ask.verb, there.closing),
    )
    if wanted == there:
        return Arranged(ask.target, there, changed=False)
    put = Put(TARGET.next(entry, TARGET.key(ask.target), wanted, now), entry)
    told = (_event(kinds[ask.verb], ask.target, now),) if ask.verb in kinds else ()
    change = Change((put,), told)
    return Plan(change, Arranged(ask.target, wanted, changed=True))


def _delete(
    ask: Arrange,
    entry: Entry,
    there: Target,
    directory: Entry | None,
    now: int,
    chance: Chance,
) -> Plan[Arranged] | FairwayError:
    """By force: a tombstone, under which a task ends what waits and leases end as they run out."""
    if ask.holds and not ask.force:
        return NotEmpty(f"{ask.target} holds {ask.holds} messages: purge it, or delete by force")
    before = DIRECTORY.read(directory) if directory else Directory()
    channels = {
        name: patterns
        for name, patterns in before.channels.items()
        if topics.channel(name) != ask.target
    }
    after = Directory(channels, before.targets - 1)
    puts = [Put(DIRECTORY.next(directory, THE_DIRECTORY, after, now), directory)]
    id = f"delete-{chance.sequence:x}"
    gone = replace(there, deleted=now, ending=id)
    removes = () if ask.force else (Removal(entry),)
    if ask.force:
        everything = Filter(target=ask.target)
        ends = Task(id=id, verb=Verb.DELETE, target=ask.target, where=everything, created=now)
        puts.append(Put(TASK.next(None, TASK.key(id), ends, now)))
        puts.append(Put(TARGET.next(entry, TARGET.key(ask.target), gone, now), entry))
    change = Change(tuple(puts), (_event("deleted", ask.target, now),), removes=removes)
    return Plan(change, Arranged(ask.target, gone, changed=True))


def _event(kind: str, target: str, now: int) -> Event:
    return Event(at=now, letter="", kind=kind, target=target, organization="", id="")
