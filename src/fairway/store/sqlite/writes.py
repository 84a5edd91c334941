"""What is written to the file, inside a transaction of the writer."""

from __future__ import annotations

from collections import Counter

import apsw

from fairway.core import claim as rules
from fairway.core.records import (
    Change,
    Claim,
    Conflict,
    Delivery,
    Demand,
    Entry,
    Grant,
    Place,
    Put,
    Removal,
    Stamp,
)
from fairway.store.guard import AT_REST, holds, named
from fairway.store.sqlite import reads
from fairway.store.sqlite.rows import COLUMNS, LINE, MARKS, TABLES, delivery_of, message_row, row_of
from fairway.store.sqlite.writer import LaneKey, Transaction

_INSERT = {
    place: f"insert into {table} ({COLUMNS}) values ({MARKS})" for place, table in TABLES.items()
}
_LINE = "target = ? and priority = ? and turn = ? and organization = ? and confirmed = ?"
_VERSION = "target = ? and organization = ? and id = ? and generation = ?"
_DELETE_WAITING = f"delete from waiting where {_LINE} and placed = ? and sequence = ? and id = ?"
_FIRST = (
    f"select {COLUMNS} from waiting where target = ?1 and priority = ?2 and turn = ?3 "
    "and organization = ?4 and confirmed = ?5 and placed <= ?6 and at <= ?6 "
    "order by placed, sequence, id limit ?7"
)
_MESSAGE = (
    "insert into message (send, id, organization, holders, pointed, facts, body) "
    "values (?, ?, ?, ?, ?, ?, ?)"
)


def change(t: Transaction, change: Change, now: int) -> Conflict | None:
    if not holds(change, lambda key: reads.record(t.db, key), now):
        return Conflict({key: reads.record(t.db, key) for key in named(change)})
    pointed = Counter(send for send in map(_points_anew, change.puts) if send is not None)
    for message in change.messages:
        t.db.execute(_MESSAGE, message_row(message, pointed.pop(message.send, 0)))
    for send, count in pointed.items():
        t.db.execute("update message set pointed = pointed + ? where send = ?", (count, send))
    for put in change.puts:
        if isinstance(put.now, Entry):
            _write_entry(t.db, put.now)
        else:
            _move(t, put, put.now)
    for removal in change.removes:
        _remove(t, removal)
    for put in change.puts:
        if put.forgets is not None:
            _forget(t.db, put.forgets)
    t.events.extend(change.events)
    return None


def _points_anew(put: Put) -> str | None:
    """The send to which a put adds a delivery."""
    now, was = put.now, put.was
    if isinstance(now, Entry) or isinstance(was, Entry):
        return None
    return now.send if was is None or was.generation != now.generation else None


def _write_entry(db: apsw.Connection, entry: Entry) -> None:
    db.execute(
        "insert into entry values (?, ?, ?, ?) on conflict do update "
        "set version = excluded.version, value = excluded.value",
        (entry.kind, entry.name, entry.version, entry.value),
    )


def _move(t: Transaction, put: Put, now: Delivery) -> None:
    was = put.was
    assert not isinstance(was, Entry)
    if not put.beside and was is not None:
        if was.place not in AT_REST:
            _take(t, was)
        elif was.generation == now.generation:
            version = (was.target, was.organization, was.id, was.generation)
            t.db.execute(f"delete from {TABLES[was.place]} where {_VERSION}", version)
            t.at_rest(was.target, was.place, -1)
    _lay(t, now)


def _take(t: Transaction, was: Delivery) -> None:
    """An open delivery leaves its place."""
    if was.place is Place.WAITING:
        t.db.execute(_DELETE_WAITING, row_of(was)[:LINE])
        t.in_lane(_lane(was), -1, 0, -was.size)
        return
    key = (was.target, was.organization, was.id)
    t.db.execute("delete from leased where target = ? and organization = ? and id = ?", key)
    t.in_lane(_lane(was), 0, -1, -was.size)
    t.count(was.counted, -1)
    t.readied.add(was.target)  # a counter may have room now


def _lay(t: Transaction, delivery: Delivery) -> None:
    t.db.execute(_INSERT[delivery.place], row_of(delivery))
    if delivery.place is Place.WAITING:
        t.in_lane(_lane(delivery), 1, 0, delivery.size)
        t.readied.add(delivery.target)
    elif delivery.place is Place.LEASED:
        t.in_lane(_lane(delivery), 0, 1, delivery.size)
        t.count(delivery.counted, 1)
    else:
        t.at_rest(delivery.target, delivery.place, 1)


def _lane(d: Delivery) -> LaneKey:
    return (d.target, d.priority, d.turn, d.organization, d.confirmed)


def _forget(db: apsw.Connection, send: str) -> None:
    db.execute(
        "update message set holders = holders - 1, "
        "body = case when holders > 1 then body end where send = ?",
        (send,),
    )
    _tidy(db, send)


def _tidy(db: apsw.Connection, send: str) -> None:
    """A message goes when nothing points to it and nobody needs it."""
    db.execute("delete from message where send = ? and pointed = 0 and holders <= 0", (send,))


def claim(t: Transaction, claim: Claim) -> list[Grant] | Conflict:
    if not holds(Change((), (), holds=claim.holds), lambda key: reads.record(t.db, key), 0):
        return Conflict({key: reads.record(t.db, key) for key, _ in claim.holds})
    stamp, grants, size = claim.stamp, list[Grant](), 0
    for demand in claim.demands:
        for waiting in _first(t.db, demand, stamp, len(grants)):
            size += waiting.size
            if grants and size > stamp.room:
                break
            if any(_is_full(t, name, stamp) for name in demand.caps):
                break
            granted, told = rules.grant(waiting, demand, stamp)
            _take(t, waiting)
            _lay(t, granted)
            message = reads.message(t.db, granted.send)
            assert message is not None
            grants.append(Grant(granted, message))
            t.events.extend(told)
    return grants


def _is_full(t: Transaction, counter: str, stamp: Stamp) -> bool:
    return counter in stamp.full_at and t.counter(counter) >= stamp.full_at[counter]


def _first(db: apsw.Connection, demand: Demand, stamp: Stamp, granted: int) -> list[Delivery]:
    lane = demand.lane
    room = min(demand.limit, stamp.limit - granted)
    if room <= 0:
        return []
    values = (
        demand.target, lane.priority, lane.turn, lane.organization, lane.confirmed, stamp.now, room,
    )  # fmt: skip
    return [delivery_of(row) for row in db.execute(_FIRST, values)]


def _remove(t: Transaction, removal: Removal) -> None:
    gone = removal.gone
    if isinstance(gone, Entry):
        t.db.execute("delete from entry where kind = ? and name = ?", (gone.kind, gone.name))
    else:
        version = (gone.target, gone.organization, gone.id, gone.generation)
        t.db.execute(f"delete from {TABLES[gone.place]} where {_VERSION}", version)
        t.at_rest(gone.target, gone.place, -1)
        t.db.execute("update message set pointed = pointed - 1 where send = ?", (gone.send,))
        _tidy(t.db, gone.send)
    if removal.forgets is not None:
        _forget(t.db, removal.forgets)


def forget_log(t: Transaction, before: int) -> int:
    t.db.execute("delete from log where first + count <= ?", (before,))
    earliest = t.db.execute("select min(first) from log").get
    if earliest is None:
        earliest = t.db.execute("select latest + 1 from identity").get
    t.db.execute("update identity set earliest = ?", (earliest,))
    return earliest
