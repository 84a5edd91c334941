"""One send in all its targets: one change, whatever number of them it reaches.

Queues are decided first; when every one refused, no channel is asked and nothing is done. A channel
never refuses: what it cannot take becomes a dead letter there.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from fairway.core import limits, topics
from fairway.core.chain import (
    Here,
    Verdict,
    duplicate,
    event_of,
    head_key,
    judge,
    name_key,
    new_delivery,
    next_generation,
    to_rest,
)
from fairway.core.entries import (
    DIRECTORY,
    PENDING,
    TARGET,
    THE_DIRECTORY,
    Directory,
    Known,
    Need,
    Pending,
    Target,
    Unknown,
)
from fairway.core.errors import (
    Contended,
    FairwayError,
    NotFound,
    QueueFull,
    TooManyTargets,
)
from fairway.core.events import Event
from fairway.core.lifecycle import PLACES
from fairway.core.plan import Chance, Plan
from fairway.core.records import AnyKey, Change, Entry, EntryKey, Load, Memo, Put, State
from fairway.core.send import Accepted, Outcome, Sent, fingerprint
from fairway.core.targets import is_closing, is_ending, too_many


def first_needs(ask: Accepted) -> tuple[AnyKey, ...]:
    """What is worth knowing before the first decision; deliveries are not, most ids are new."""
    keys: list[AnyKey] = [THE_DIRECTORY, *(TARGET.key(queue) for queue in ask.queues)]
    for queue in ask.queues:
        keys += [key for key in (head_key(ask, queue), name_key(ask, queue)) if key is not None]
    return tuple(keys)


def channels_of(ask: Accepted, directory: Entry | None) -> list[str]:
    """The channels that subscribe any of its topics."""
    if directory is None:
        return []
    return [
        topics.channel(name)
        for name, patterns in DIRECTORY.read(directory).channels.items()
        if any(topics.matches(p, t) for p in patterns for t in ask.message.topics)
    ]


def decide(
    ask: Accepted, known: Known, now: int, chance: Chance, loads: Mapping[str, Load]
) -> Plan[Sent] | Need | FairwayError:
    """One change for all targets, or the error that refuses the send as a whole."""
    try:
        return _decide(ask, known, loads, now, chance)
    except Unknown as unknown:
        return Need(unknown.keys)


def _decide(
    ask: Accepted, known: Known, loads: Mapping[str, Load], now: int, chance: Chance
) -> Plan[Sent] | FairwayError:
    directory = known.entry(THE_DIRECTORY)
    opened = _Opened(directory, now, chance)
    verdicts = [_in_queue(ask, queue, known, loads, opened) for queue in ask.queues]
    refused = [v.error for v in verdicts if v.error is not None]
    if refused and len(refused) == len(verdicts):
        return refused[0]
    verdicts += [
        _in_channel(ask, channel, known, loads, opened)
        for channel in channels_of(ask, directory)
        if _is_there(channel, known)  # else the directory is old, and its hold will say so
    ]
    return _together(ask, verdicts, opened, now)


class _Opened:
    """The targets of a send: those that are there, and those that it makes."""

    def __init__(self, directory: Entry | None, now: int, chance: Chance) -> None:
        self._directory = directory
        self.now = now
        self.chance = chance
        self.holds: list[tuple[EntryKey, int]] = []
        self.made: list[str] = []
        self.puts: list[Put] = []

    def target(self, name: str, known: Known) -> Target:
        key = TARGET.key(name)
        entry = known.entry(key)
        target = TARGET.read(entry) if entry is not None else None
        if target is not None and target.deleted is not None:
            if self.now - target.deleted < limits.TOMBSTONE or is_ending(target, known):
                raise NotFound(f"{name} was deleted: create it, or wait 10 minutes", target=name)
            target = None
        if entry is not None and target is not None:
            if is_closing(target, self.now):
                raise Contended(f"{name} is about to be deleted: try again in a moment")
            self.holds.append((key, entry.version))
            return target
        return self._make(name, entry)

    def _make(self, name: str, tombstone: Entry | None) -> Target:
        before = DIRECTORY.read(self._directory).targets if self._directory else 0
        if before + len(self.made) >= limits.TARGETS:
            raise too_many()
        self.made.append(name)
        id = f"{self.chance.sequence:x}-{len(self.made)}"
        target = Target(id=id, created=self.now)
        put = Put(TARGET.next(tombstone, TARGET.key(name), target, self.now), tombstone)
        self.puts.append(put)
        return target

    def directory(self) -> tuple[Put, ...]:
        """Counts what was made, or holds the subscriptions that were looked at."""
        was = self._directory
        if not self.made:
            self.holds.append((THE_DIRECTORY, was.version if was else 0))
            return ()
        before = DIRECTORY.read(was) if was else Directory()
        after = replace(before, targets=before.targets + len(self.made))
        return (Put(DIRECTORY.next(was, THE_DIRECTORY, after, self.now), was),)


def _in_queue(
    ask: Accepted, queue: str, known: Known, loads: Mapping[str, Load], opened: _Opened
) -> Verdict:
    try:
        here = _here(ask, queue, known, loads, opened)
        verdict = _logged_only(here) if here.entry.settings.routing == "spark" else judge(here)
    except (NotFound, TooManyTargets, Contended) as gone:
        verdict = Verdict(Outcome(queue, "refused", reason=gone.code), error=gone)
    if verdict.error is None:
        return verdict
    error = verdict.error
    event = Event(
        at=opened.now, letter="D", kind="refused", target=queue,
        organization=ask.message.organization, id=ask.message.id, reason=error.code,
        send_id=ask.message.send,
    )  # fmt: skip
    outcome = Outcome(queue, "refused", retryable=error.retryable, reason=error.code)
    return Verdict(outcome, events=(event,), error=error)


def _is_there(channel: str, known: Known) -> bool:
    entry = known.entry(TARGET.key(channel))
    target = TARGET.read(entry) if entry is not None else None
    return target is not None and target.deleted is None


def _in_channel(
    ask: Accepted, target: str, known: Known, loads: Mapping[str, Load], opened: _Opened
) -> Verdict:
    """A channel never refuses: what it cannot take becomes a dead letter there."""
    here = _here(ask, target, known, loads, opened)
    verdict = judge(here)
    if not isinstance(verdict.error, QueueFull):
        if verdict.error is None:
            return verdict
        return duplicate(here, here.known.delivery(here.key))
    newest = known.delivery_if_any(here.key)
    dead = replace(
        new_delivery(here, next_generation(newest)),
        place=PLACES[State.EXHAUSTED], state=State.EXHAUSTED, at=here.now,
        memo=Memo(reason="overflow"),
    )  # fmt: skip
    event = replace(event_of(here, dead, "exhausted"), reason="overflow", available_at=None)
    outcome = Outcome(target, "overflow", dead.state, dead.generation)
    return Verdict(outcome, tuple(to_rest(dead, newest)), (event,), holders=1, keeps=True)


def _here(
    ask: Accepted, target: str, known: Known, loads: Mapping[str, Load], opened: _Opened
) -> Here:
    entry = opened.target(target, known)
    found = topics.of_target(target, entry.topics, ask.message.topics)
    print_ = fingerprint(ask.message, found)
    load = loads.get(target, Load())
    return Here(
        ask, target, entry, print_, found, known, load, opened.now, opened.chance,
        head_key(ask, target), name_key(ask, target),
    )  # fmt: skip


def _together(ask: Accepted, verdicts: list[Verdict], opened: _Opened, now: int) -> Plan[Sent]:
    holders, keeps, pending = 0, False, list[str]()
    puts = [*opened.directory(), *opened.puts]
    events = list[Event]()
    for verdict in verdicts:
        holders += verdict.holders
        keeps = keeps or verdict.keeps
        puts += verdict.puts
        events += verdict.events
        if verdict.outcome.outcome == "logged":
            pending.append(verdict.outcome.target)
    message = ask.message
    if holders != 1:
        message = replace(message, holders=holders, body=message.body if holders else None)
    made = [_created(target, now) for target in opened.made]
    change = Change(
        puts=tuple(puts),
        events=(*made, _logged(ask, pending, now), *events),
        messages=(message,) if keeps else (),
        holds=tuple(opened.holds),
    )
    outcomes = tuple(verdict.outcome for verdict in verdicts)
    return Plan(change, Sent(message.id, outcomes[0].outcome, outcomes))


def _logged_only(here: Here) -> Verdict:
    """The pipeline places it; until then it waits beside the deliveries."""
    ask = here.ask
    ttl = ask.ttl or here.entry.settings.message_ttl
    waits = Pending(
        ask.message.organization, ask.message.id, ask.priority, ttl, ask.delay, tuple(here.topics)
    )
    key = PENDING.key(here.target, ask.message.organization, ask.message.id, ask.message.send)
    put = Put(PENDING.next(None, key, waits, here.now))
    outcome = Outcome(here.target, "logged", State.LOGGED)
    return Verdict(outcome, (put,), holders=1, keeps=True)


def _logged(ask: Accepted, pending: list[str], now: int) -> Event:
    message = ask.message
    return Event(
        at=now, letter=State.LOGGED, kind="logged", target="", organization=message.organization,
        id=message.id, priority=ask.priority, size=len(message.body or b""),
        object=message.object, key=message.key, topics=message.topics, send_id=message.send,
        pending=pending or None,
    )  # fmt: skip


def _created(target: str, now: int) -> Event:
    return Event(at=now, letter="", kind="created", target=target, organization="", id="")
