"""What an engine remembers between verbs: the settings of targets, subscriptions, how full they are.

May be stale; a decision made on it holds the versions that it read, and a conflict brings new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from fairway.clock import Clock
from fairway.core.entries import DIRECTORY, TARGET
from fairway.core.limits import SECOND
from fairway.core.records import (
    AnyKey,
    Change,
    Delivery,
    Entry,
    EntryKey,
    Load,
    Place,
    Put,
    Record,
)
from fairway.store.contract import Store

REMEMBERED = frozenset({TARGET.name, DIRECTORY.name})
LOADS_FRESH = 1 * SECOND  # how long other engines' sends may go unseen when a queue fills


def _lasts(record: Record | None) -> TypeGuard[Entry]:
    """That there is none, or only a tombstone, is not worth remembering: another engine may make it."""
    if not isinstance(record, Entry):
        return False
    return record.kind != TARGET.name or TARGET.read(record).deleted is None


class Memory:
    """One for each engine."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._entries: dict[AnyKey, Record] = {}
        self._loads: dict[str, tuple[int, Load]] = {}  # when it was read, and what is there now

    async def look(self, keys: Iterable[AnyKey]) -> dict[AnyKey, Record | None]:
        """The records of the keys; what is remembered is not looked up."""
        distinct = dict.fromkeys(keys)
        found: dict[AnyKey, Record | None] = {
            key: self._entries[key] for key in distinct if key in self._entries
        }
        missing = [key for key in distinct if key not in found]
        if missing:
            looked_up = zip(missing, await self._store.find(missing), strict=True)
            found |= self.learn(dict(looked_up))
        return found

    def learn(self, found: Mapping[AnyKey, Record | None]) -> Mapping[AnyKey, Record | None]:
        for key, record in found.items():
            if isinstance(key, EntryKey) and key.kind in REMEMBERED:
                if _lasts(record):
                    self._entries[key] = record
                else:
                    self._entries.pop(key, None)
        return found

    async def entry(self, key: EntryKey, *, again: bool = False) -> Entry | None:
        """What is remembered of it; `again`: what is there now."""
        if again:
            self._entries.pop(key, None)
        found = (await self.look([key]))[key]
        assert not isinstance(found, Delivery)
        return found

    async def loads(self, targets: Sequence[str]) -> Mapping[str, Load]:
        """How much each target holds: exact for what this engine did, else up to a second old."""
        now = self._clock()
        old = [t for t in targets if t not in self._loads or now - self._loads[t][0] > LOADS_FRESH]
        if old:
            for target, load in zip(old, await self._store.loads(old), strict=True):
                self._loads[target] = (now, load)
        return {target: self._loads[target][1] for target in targets}

    def written(self, change: Change) -> Mapping[AnyKey, Record | None]:
        """What is known once a change went through."""
        for put in change.puts:
            self._count(put)
        found: dict[AnyKey, Record | None] = {
            put.now.the_key: put.now for put in change.puts if not put.beside
        }
        for removal in change.removes:
            gone = removal.gone
            key = gone.the_key
            if isinstance(gone, Delivery):
                key = replace(gone.the_key, generation=gone.generation)
            found[key] = None
        return self.learn(found)

    def _count(self, put: Put) -> None:
        for record, by in ((put.was, -1), (put.now, 1)):
            if not isinstance(record, Delivery) or record.target not in self._loads:
                continue
            if record.place in (Place.WAITING, Place.LEASED):
                since, load = self._loads[record.target]
                more = Load(load.queued + by, load.bytes + by * record.size)
                self._loads[record.target] = (since, more)
