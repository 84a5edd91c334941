"""The tables of the embedded store, and opening a file: ours, of this version, durable."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from uuid import uuid4

import apsw

from fairway.core.errors import StoreMismatch, StoreUnavailable

APPLICATION_ID = 0x46415759  # "FAWY", in the file's header
VERSION = 1
OLDEST_SQLITE = 3_051_003  # before it, two connections that write and checkpoint can corrupt a file
BUSY_MS = 10_000  # only for what does not queue at our own lock: other tools, recovery
PAGE_BYTES = 8192

# Bodies are written once and stay; the narrow rows move between the four places.
_DELIVERY = """
  target text not null, priority integer not null, turn integer not null,
  organization text not null, confirmed text not null, placed integer not null,
  sequence integer not null, id text not null, generation integer not null,
  version integer not null, place integer not null, state text not null, at integer not null,
  expires_at integer not null, token integer not null, send text not null, size integer not null,
  fingerprint blob not null, counted text not null, lease blob not null, memo blob not null"""
_AT_REST = f"{_DELIVERY}, primary key (target, organization, id, generation)"

SCHEMA = f"""
create table message (
  number integer primary key, send text not null unique, id text not null,
  organization text not null, holders integer not null, pointed integer not null,
  facts blob not null, body blob
) strict;
create index message_id on message (id, organization);
create table waiting ({_DELIVERY},
  primary key (target, priority, turn, organization, confirmed, placed, sequence, id)
) strict, without rowid;
create unique index waiting_key on waiting (target, organization, id);
create index waiting_expiry on waiting (expires_at);
create table leased ({_DELIVERY}, primary key (target, organization, id)) strict, without rowid;
create index leased_deadline on leased (at);
create table history ({_AT_REST}) strict, without rowid;
create index history_age on history (target, at);
create table dead ({_AT_REST}) strict, without rowid;
create index dead_age on dead (target, at);
create table entry (
  kind text not null, name text not null, version integer not null, value blob not null,
  primary key (kind, name)
) strict, without rowid;
create table lane (
  target text not null, priority integer not null, turn integer not null,
  organization text not null, confirmed text not null, waiting integer not null,
  leased integer not null, bytes integer not null,
  primary key (target, priority, turn, organization, confirmed)
) strict, without rowid;
create table resting (
  target text not null, place integer not null, count integer not null, primary key (target, place)
) strict, without rowid;
create table counter (name text primary key, value integer not null) strict, without rowid;
create table log (
  first integer primary key, count integer not null, data blob not null
) strict;
create table identity (
  log text not null, earliest integer not null, latest integer not null
) strict;
"""


def connect(path: str) -> apsw.Connection:
    """A connection with our settings, read back: what cannot be had is an error, not a surprise."""
    try:
        db = apsw.Connection(path)
        db.set_busy_timeout(BUSY_MS)
        db.execute(f"pragma page_size = {PAGE_BYTES}")
        mode = db.execute("pragma journal_mode = wal").get
        db.execute("pragma synchronous = full")
        synchronous = db.execute("pragma synchronous").get
    except apsw.NotADBError:
        raise StoreMismatch(f"{path} is not a Fairway store, nor any SQLite file") from None
    except apsw.CantOpenError:
        raise StoreUnavailable(
            f"{path} cannot be opened: is its folder there, and may this user write in it?"
        ) from None
    if (mode, synchronous) != ("wal", 2):
        raise StoreMismatch(
            f"{path}: this file system gives journal_mode {mode} and synchronous {synchronous}; "
            "Fairway needs wal and 2 (full)"
        )
    return db


def prepared(path: str, lock: int) -> apsw.Connection:
    """The writer's connection. Under the writers' lock, so that only one process makes the tables."""
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        db = connect(path)
        _prepare(db, path)
        return db
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _prepare(db: apsw.Connection, path: str) -> None:
    """Makes the tables in an empty file; refuses what is not ours."""
    if apsw.SQLITE_VERSION_NUMBER < OLDEST_SQLITE:
        raise StoreMismatch(f"SQLite {apsw.sqlite_lib_version()} is too old: install apsw ≥ 3.51.3")
    application = db.execute("pragma application_id").get
    version = db.execute("pragma user_version").get
    if application == APPLICATION_ID and version == VERSION:
        return
    if application == APPLICATION_ID:
        raise StoreMismatch(f"{path} has version {version}; this Fairway reads version {VERSION}")
    if db.execute("select count(*) from sqlite_schema").get:
        raise StoreMismatch(f"{path} is another program's SQLite file: give Fairway one of its own")
    db.execute("begin immediate")
    db.execute(SCHEMA)
    db.execute("insert into identity values (?, 1, 0)", (uuid4().hex,))
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute(f"pragma user_version = {VERSION}")
    db.execute("commit")


def lock_file(path: str) -> int:
    """Writers of all processes queue at this file: SQLite's own waiting starves some of them."""
    try:
        return os.open(Path(f"{path}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"{path}.lock cannot be opened: {error.strerror}") from None
