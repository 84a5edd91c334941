"""What is read from the file, in plain steps of its indexes. Used by the reader and inside writes."""

from __future__ import annotations

import apsw

from fairway.core.records import (
    AnyKey,
    Block,
    Delivery,
    Entry,
    EntryKey,
    Filter,
    Front,
    Grant,
    Key,
    Lane,
    Load,
    Message,
    Page,
    Place,
    Record,
    Tally,
)
from fairway.store.picks import picks
from fairway.store.sqlite.rows import COLUMNS, TABLES, delivery_of, message_of

_OF_KEY = "where target = ? and organization = ? and id = ?"
_OPEN = [f"select {COLUMNS} from {table} {_OF_KEY}" for table in ("waiting", "leased")]
_REST = [
    f"select {COLUMNS} from {table} {_OF_KEY} order by generation desc limit 1"
    for table in ("history", "dead")
]
_VERSION = [
    f"select {COLUMNS} from {table} {_OF_KEY} and generation = ?" for table in TABLES.values()
]
_BLOCKS = (
    "select first, count, data from log where first <= ?2 and first >= "
    "coalesce((select max(first) from log where first <= ?1), 0) order by first limit ?3"
)
_DUE = (
    f"select * from (select {COLUMNS}, at as due from leased where at <= ?1 "
    f"order by at, target, organization, id limit ?2) "
    f"union all select * from (select {COLUMNS}, expires_at as due from waiting "
    "where expires_at <= ?1 order by expires_at, target, organization, id limit ?2) "
    "order by due, target, organization, id limit ?2"
)


def record(db: apsw.Connection, key: AnyKey) -> Record | None:
    if isinstance(key, EntryKey):
        sql = "select kind, name, version, value from entry where kind = ? and name = ?"
        row = db.execute(sql, (key.kind, key.name)).get
        return Entry(*row) if row else None
    return newest(db, key) if not key.generation else version(db, key)


def newest(db: apsw.Connection, key: Key) -> Delivery | None:
    names = (key.target, key.organization, key.id)
    for sql in _OPEN:
        for row in db.execute(sql, names):
            return delivery_of(row)
    rest = [delivery_of(row) for sql in _REST for row in db.execute(sql, names)]
    return max(rest, key=lambda d: d.generation, default=None)


def version(db: apsw.Connection, key: Key) -> Delivery | None:
    for sql in _VERSION:
        for row in db.execute(sql, (key.target, key.organization, key.id, key.generation)):
            return delivery_of(row)
    return None


def message(db: apsw.Connection, send: str) -> Message | None:
    sql = "select holders, facts, body from message where send = ?"
    row = db.execute(sql, (send,)).get
    return message_of(*row) if row else None


def of_id(db: apsw.Connection, organization: str | None, id: str) -> list[Delivery]:
    sql = "select distinct organization from message where id = ?"
    organizations = sorted(row[0] for row in db.execute(sql, (id,)))
    if organization is not None:
        organizations = [name for name in organizations if name == organization]
    found = [newest(db, Key(t, o, id)) for t in _targets(db) for o in organizations]
    return [delivery for delivery in found if delivery is not None]


def _targets(db: apsw.Connection) -> list[str]:
    """Each one step of an index, whatever it holds."""
    found: set[str] = set()
    for table in TABLES.values():
        after = ""
        while name := db.execute(f"select min(target) from {table} where target > ?", (after,)).get:
            found.add(name)
            after = name
    return sorted(found)


def entries(db: apsw.Connection, kind: str, prefix: str, after: str, limit: int) -> list[Entry]:
    sql = (
        "select kind, name, version, value from entry where kind = ?1 and name > ?3 "
        "and name >= ?2 and substr(name, 1, length(?2)) = ?2 order by name limit ?4"
    )
    return [Entry(*row) for row in db.execute(sql, (kind, prefix, after, limit))]


def scan(db: apsw.Connection, place: Place, where: Filter, after: str, limit: int) -> Page:
    start = after.split("\n") if after else ["", "", "", "0"]
    sql = (
        f"select {COLUMNS} from {TABLES[place]} where (target, organization, id, generation) > "
        "(?, ?, ?, ?) order by target, organization, id, generation limit ?"
    )
    names = (start[0], start[1], start[2], int(start[3]), limit + 1)
    rows = [delivery_of(row) for row in db.execute(sql, names)]
    looked_at = rows[:limit]
    found = [row for row in looked_at if picks(row, message(db, row.send), where)]
    more = cursor_of(looked_at[-1]) if len(rows) > limit else None
    return Page(found, len(looked_at), more)


def cursor_of(d: Delivery) -> str:
    return f"{d.target}\n{d.organization}\n{d.id}\n{d.generation:012d}"


def due(db: apsw.Connection, now: int, limit: int) -> list[Delivery]:
    return [delivery_of(row) for row in db.execute(_DUE, (now, limit))]


_LANES = (
    "select priority, turn, organization, confirmed, waiting, leased from lane "
    "where target = ?1 and priority = ?2 and waiting > 0 and (turn, organization) in "
    "(select distinct turn, organization from lane where target = ?1 and priority = ?2 "
    "and waiting > 0 and (turn, organization) > (?3, ?4) order by turn, organization limit ?5) "
    "order by turn, organization, confirmed"
)
_ORGANIZATIONS = (
    "select count(*) from (select distinct turn, organization from lane "
    "where target = ? and priority = ? and waiting > 0)"
)


def tally(
    db: apsw.Connection, target: str, priority: int, after: tuple[int, str], limit: int
) -> Tally:
    fronts = [
        Front(Lane(*row[:4]), row[4], row[5], _first_at(db, target, row[:4]))
        for row in db.execute(_LANES, (target, priority, *after, limit))
    ]
    organizations = db.execute(_ORGANIZATIONS, (target, priority)).get
    sql = "select name, value from counter where name >= ? and name < ? and value <> 0"
    counters = dict(db.execute(sql, (f"{target}\n", f"{target}\x0b")))
    return Tally(fronts, organizations, counters)


def _first_at(db: apsw.Connection, target: str, lane: tuple[int, int, str, str]) -> int | None:
    sql = (
        "select at from waiting where target = ? and priority = ? and turn = ? "
        "and organization = ? and confirmed = ? order by placed, sequence, id limit 1"
    )
    return db.execute(sql, (target, *lane)).get


def load(db: apsw.Connection, target: str) -> Load:
    sql = (
        "select coalesce(sum(waiting + leased), 0), coalesce(sum(bytes), 0), "
        "(select coalesce(sum(count), 0) from resting where target = ?1 and place = ?2), "
        "(select coalesce(sum(count), 0) from resting where target = ?1 and place = ?3) "
        "from lane where target = ?1"
    )
    return Load(*db.execute(sql, (target, int(Place.HISTORY), int(Place.DEAD))).get)


def oldest(db: apsw.Connection, place: Place, target: str, before: int, limit: int) -> list[Grant]:
    sql = (
        f"select {COLUMNS} from {TABLES[place]} where target = ? and at < ? "
        "order by at, organization, id, generation limit ?"
    )
    rows = [delivery_of(row) for row in db.execute(sql, (target, before, limit))]
    return [Grant(row, found) for row in rows if (found := message(db, row.send)) is not None]


def blocks(db: apsw.Connection, first: int, last: int, limit: int) -> list[Block]:
    return [Block(*row) for row in db.execute(_BLOCKS, (first, last, limit))]
