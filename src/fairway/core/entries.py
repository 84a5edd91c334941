"""The small records that the core keeps beside deliveries, each with its key and its form.

  target      a queue or a channel: its settings, whether it is paused, when it was deleted
  directory   which channels there are and what they subscribe; one of a store
  head        the last accepted message of (target, organization, object, key)
  name        the newest message of a `replaces` name of (target, organization)
  pending     a send that a target left to the pipeline
  task        work in pages (core/task.py)

Who removes them: heads and names go with the message that they name (core/retention.py), a pending
entry when it is placed or ended (core/place.py, core/task.py), a task 30 days after it began. A
target that is deleted by force leaves a tombstone, which the next one of its name replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar, cast

from msgspec import Struct, msgpack

from fairway.core.records import (
    VERSION,
    AnyKey,
    Delivery,
    Entry,
    EntryKey,
    Key,
    Record,
    unversioned,
)
from fairway.core.settings import Settings

T = TypeVar("T")
REMEMBERED: Final = 256  # values of a kind
BETWEEN: Final = "\n"  # parts of a name; no name holds a control character


class Target(Struct, frozen=True, gc=False, omit_defaults=True):
    """A queue or a channel."""

    id: str
    created: int
    settings: Settings = Settings()
    paused: bool = False
    topics: tuple[str, ...] = ()  # what a channel subscribes
    deleted: int | None = None  # by force: leases still run, and the name is not made again soon
    ending: str = ""  # the task that ends what waited when it was deleted
    closing: int = 0  # since when it takes nothing new, as it is looked at whether it is empty


class Directory(Struct, frozen=True, gc=False):
    """Channel → what it subscribes; and how many targets there are."""

    channels: dict[str, tuple[str, ...]] = {}
    targets: int = 0


class Head(Struct, frozen=True, gc=False, array_like=True):
    """The last accepted message of an object's key."""

    fingerprint: bytes
    id: str
    generation: int


class Name(Struct, frozen=True, gc=False, array_like=True):
    """The newest message of a `replaces` name."""

    id: str
    generation: int


class Pending(Struct, frozen=True, gc=False, array_like=True):
    """A send that waits for the pipeline to place it in a target."""

    organization: str
    id: str
    priority: int
    ttl: int
    delay: int
    topics: tuple[str, ...]


class Kind(Generic[T]):
    """One kind of entry: its key, and its form."""

    def __init__(self, name: str, form: type[T]) -> None:
        self.name = name
        # The same few targets are read for every message: what was read is remembered by its bytes.
        self._decoded = lru_cache(maxsize=REMEMBERED)(msgpack.Decoder(form).decode)

    def key(self, *parts: str) -> EntryKey:
        return EntryKey(self.name, parts[0] if len(parts) == 1 else BETWEEN.join(parts))

    def read(self, entry: Entry) -> T:
        return self._decoded(unversioned(entry.value))

    def next(self, was: Entry | None, key: EntryKey, value: T, now: int) -> Entry:
        """What is written over `was`. The guard compares its version, which outgrows the last one
        and the clock: one that is made again is never taken for the one before."""
        return Entry(key.kind, key.name, max(was.version + 1 if was else 0, now), _packed(value))


def _packed(value: object) -> bytes:
    return VERSION + msgpack.encode(value)


TARGET: Final = Kind("target", Target)
DIRECTORY: Final = Kind("directory", Directory)
HEAD: Final = Kind("head", Head)
NAME: Final = Kind("name", Name)
PENDING: Final = Kind("pending", Pending)
THE_DIRECTORY: Final = DIRECTORY.key()


class Need(Struct, frozen=True, gc=False):
    """A decision must know these records first."""

    keys: tuple[AnyKey, ...]


class Unknown(Exception):
    """Raised inside a decision that meets a record it must know; becomes `Need`."""

    def __init__(self, *keys: AnyKey) -> None:
        super().__init__(*keys)
        self.keys = keys


class Known:
    """What an engine knows of the records, as far as it looked. None: looked, and there is none."""

    def __init__(self, records: Mapping[AnyKey, Record | None]) -> None:
        self._records = records

    def delivery(self, key: Key) -> Delivery | None:
        """What is there, or Unknown."""
        try:
            return cast("Delivery | None", self._records[key])
        except KeyError:
            raise Unknown(key) from None

    def delivery_if_any(self, key: Key) -> Delivery | None:
        """As if there were none where nobody looked: a guard will tell."""
        return cast("Delivery | None", self._records.get(key))

    def entry(self, key: EntryKey) -> Entry | None:
        """What is there, or Unknown."""
        try:
            return cast("Entry | None", self._records[key])
        except KeyError:
            raise Unknown(key) from None
