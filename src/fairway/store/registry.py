"""From a URL to a store; the only place that names the stores. Drivers are imported when asked for."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from fairway.core.errors import SettingsError
from fairway.store.contract import Store

PLANNED = ("postgresql", "redis", "mongodb", "elasticsearch")


async def open_store(url: str, clock: Callable[[], int]) -> Store:
    """`memory://`, or `sqlite:///relative.db`, `sqlite:////absolute.db`."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "memory":
        _none_left(url, options)
        from fairway.store.memory import MemoryStore

        return MemoryStore(clock)
    if parts.scheme == "sqlite":
        from fairway.store.sqlite.store import SqliteStore

        if parts.netloc or len(parts.path) < 2:
            raise SettingsError(
                f"{url!r} names no file: write sqlite:///orders.db, or sqlite:////var/lib/orders.db"
            )
        _none_left(url, options)
        return await SqliteStore.open(parts.path[1:], clock)
    if parts.scheme in PLANNED:
        raise SettingsError(
            f"the store {parts.scheme}:// is not built yet: use sqlite:// or memory://"
        )
    raise SettingsError(f"{url!r} names no store: memory:// or sqlite:///file.db")


def _none_left(url: str, options: dict[str, str]) -> None:
    if options:
        raise SettingsError(f"{url!r}: unknown option {', '.join(options)}")
