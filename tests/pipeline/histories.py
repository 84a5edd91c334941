"""Random histories of deliveries as the log would hold them, and what a table should say of them."""

from __future__ import annotations

import random
from typing import Any

from fairway.core.events import Event

START = 1_700_000_000_000_000
LETTERS = {
    "queued": "Q", "updated": "Q", "leased": "F", "confirmed": "S", "release": "Q", "nak": "R",
    "requeue": "R", "lapse": "R", "reschedule": "R", "completed": "X", "kicked": "K",
    "rejected": "I", "declined": "N", "exhausted": "E", "expired": "E", "cancelled": "C",
    "purged": "C", "obsolete": "O", "unchanged": "U",
}  # fmt: skip
RETURNS = ("nak", "requeue", "lapse", "reschedule", "release", "confirmed")
ENDS = ("completed", "rejected", "declined", "exhausted", "kicked")
UNLEASED_ENDS = ("expired", "cancelled", "purged", "exhausted")
ENDING = {*ENDS, *UNLEASED_ENDS, "obsolete", "unchanged"}
Row = dict[str, Any]


def history(seed: int, messages: int) -> list[Event]:
    """Whole lives of messages, some not ended, mixed as they would be; instants grow."""
    chance = random.Random(seed)
    lives = [_message(chance, f"m{number}") for number in range(messages)]
    events: list[Event] = []
    while lives:
        life = chance.choice(lives)
        event = life.pop(0)
        if not life:
            lives.remove(life)
        at = START + len(events) * 1_700
        waits = chance.choice([0, 0, 5_000]) if event.kind in ("queued", "updated") else None
        events.append(_at(event, at, None if waits is None else at + waits))
    return events


def _at(event: Event, at: int, available: int | None) -> Event:
    facts = {name: getattr(event, name) for name in Event.__struct_fields__}
    return Event(**facts | {"at": at, "available_at": available})


def _message(chance: random.Random, name: str) -> list[Event]:
    common = {
        "target": chance.choice(["orders", "mail", "channel:all"]),
        "organization": chance.choice(["", "acme", "züri"]),
        "id": name,
    }
    life: list[Event] = []
    for generation in range(1, chance.choice([1, 1, 1, 2, 3]) + 1):
        facts = common | {"generation": generation, "send_id": f"{name}-{generation}"}
        if life and _open(life):  # the newer one replaces it
            old = {"generation": generation - 1, "send_id": f"{name}-{generation - 1}"}
            life.append(_event("obsolete", facts | old, cause=facts["send_id"]))
        life += _version(chance, facts, "updated" if life else "queued")
    return life


def _open(life: list[Event]) -> bool:
    last = next(event.kind for event in reversed(life) if event.kind in LETTERS)
    return last not in ENDING


def _version(chance: random.Random, facts: Row, begin: str) -> list[Event]:
    said = {
        "topics": chance.choice([None, [], ["orders.created"], ["a.b", "c"]]),
        "object": chance.choice([None, "invoice"]),
        "key": chance.choice([None, "k1"]),
        "priority": chance.choice([1, 2, 3, 4]),
    }
    logged = _event("logged", facts | {"target": "", "generation": 1}, letter="L", **said)
    fate = chance.random()
    if fate < 0.1:
        return [logged, _event("unchanged", facts, **said)]
    if fate < 0.15:
        return [logged, _event("exhausted", facts, reason="overflow", **said)]
    life = [logged, _event(begin, facts, **said)]
    if fate < 0.25:
        life.append(_event("duplicate", facts | {"send_id": "other"}, letter="D"))
    for attempt in range(1, chance.choice([1, 1, 2, 3, 5])):
        life.append(_event("leased", facts, attempt=attempt, consumer="h:1"))
        life.append(_event(chance.choice(RETURNS), facts, attempt=attempt, reason="why"))
    if fate < 0.4:
        return life
    if fate < 0.5:
        return [*life, _event(chance.choice(UNLEASED_ENDS), facts)]
    end = _event(chance.choice(ENDS), facts, consumer="h:2", service="s", reason="r", code="c")
    life += [_event("leased", facts, consumer="h:2"), end]
    return [*life, _event("discarded", facts, letter="C")] if end.letter == "I" else life


def _event(kind: str, facts: Row, letter: str = "", **more: Any) -> Event:
    return Event(at=0, kind=kind, letter=letter or LETTERS[kind], **facts, **more)


def oracle(events: list[Event]) -> tuple[list[Row], list[Row]]:
    """Finished and unfinished versions, event by event. `events[0]` is at position 1."""
    open_: dict[tuple[Any, ...], Row] = {}
    finished: list[Row] = []
    for position, event in enumerate(events, 1):
        if event.kind not in LETTERS:
            continue
        key = (event.target, event.organization, event.id, event.generation, event.send_id)
        seen = open_.setdefault(key, _new(event))
        seen["lastPosition"] = position
        seen["leases"] += event.kind == "leased"
        seen["retries"] += event.letter == "R"
        if event.kind == "leased" and seen["leasedAt"] is None:
            seen["leasedAt"] = event.at
        if event.kind in ("queued", "updated", "unchanged"):
            seen |= {"firstPosition": position, "queuedAt": event.at} | _said(event)
            seen["availableAt"] = event.available_at
        if event.kind in ENDING:
            finished.append(_finished(open_.pop(key), event))
    return finished, list(open_.values())


def _new(event: Event) -> Row:
    nothing = dict.fromkeys(
        ("firstPosition queuedAt leasedAt availableAt topics object key priority").split()
    )
    return nothing | {
        "target": event.target, "organization": event.organization, "id": event.id,
        "generation": event.generation, "sendId": event.send_id, "leases": 0, "retries": 0,
    }  # fmt: skip


def _said(event: Event) -> Row:
    return {name: getattr(event, name) for name in ("topics", "object", "key", "priority")}


def _finished(seen: Row, event: Event) -> Row:
    for name, value in _said(event).items():
        if seen[name] is None:
            seen[name] = value
    available = seen["availableAt"] if seen["availableAt"] is not None else seen["queuedAt"]
    return seen | {
        "shard": 0, "outcome": event.letter, "kind": event.kind, "reason": event.reason,
        "code": event.code, "consumer": event.consumer, "service": event.service,
        "availableAt": available, "endedAt": event.at,
        "queueWaitMs": _ms(available, seen["leasedAt"]),
        "totalMs": _ms(seen["queuedAt"], event.at),
    }  # fmt: skip


def _ms(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else (end - start) // 1000
