"""The verbs over HTTP. Every call that may be repeated safely is repeated when its reply got lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from msgspec import json
from msgspec.structs import replace

from fairway.clock import Source, system_clock
from fairway.core import claim, send, settle
from fairway.core.claim import Held, Receive
from fairway.core.errors import FairwayError, InvalidInput, SettingsError, StoreUnavailable
from fairway.core.events import Logged
from fairway.core.lifecycle import Verb
from fairway.core.limits import MS, SECOND
from fairway.core.records import LogState
from fairway.core.send import Send, Sent
from fairway.core.settle import Settle, Settled
from fairway.server import problems, wire

TRIES = 3
PAUSE = 0.1  # s before a repeat; doubled each time
PATIENCE = 30  # s for an answer, on top of what a receive waits
TOGETHER = 32  # calls of one batch under way at once


class Remote:
    """A server's verbs. Connections are kept and shared."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment or parts.path not in ("", "/"):
            raise SettingsError(f"{url!r} is no server's address: write http://host:7070")
        self._base = url.rstrip("/")
        self._source = Source(system_clock())
        self._room = asyncio.Semaphore(TOGETHER)
        self._http: aiohttp.ClientSession | None = None

    async def send(self, asks: Sequence[Send]) -> Sequence[Sent | FairwayError]:
        return await asyncio.gather(*(self._send(ask) for ask in asks))

    async def receive(self, ask: Receive) -> Sequence[Held]:
        claim.check(ask)
        params = {"limit": ask.limit, "wait": ask.wait // MS, "service": ask.service}
        if ask.window is not None:
            params["visibilityWindow"] = ask.window // MS
        if ask.consumer:
            params["consumer"] = ask.consumer
        patience = ask.wait / SECOND + PATIENCE
        path = f"{_queue(ask.queue)}/pop-many"
        body = await self._once("POST", path, params=params, timeout=patience)
        return [
            wire.held_of(ask.queue, item) for item in json.decode(body, type=list[wire.HeldMessage])
        ]

    async def settle(self, asks: Sequence[Settle]) -> Sequence[Settled | FairwayError]:
        return await asyncio.gather(*(self._settle(ask) for ask in asks))

    async def log(self) -> LogState:
        return json.decode(await self._repeated("GET", "/v1/log"), type=LogState)

    async def read_log(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None = None
    ) -> AsyncIterator[bytes]:
        params = {"from": first, "to": last}
        if columns is not None:
            params |= {"columns": ",".join(columns)}
        try:
            async with self._session().get(f"{self._base}/v1/log/{shard}", params=params) as reply:
                if reply.status != 200:
                    raise problems.error_of(reply.status, await reply.read())
                async for chunk in reply.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    async def events(self, shard: int, after: int, limit: int) -> Sequence[Logged]:
        params = {"shard": shard, "after": after, "limit": limit}
        body = await self._repeated("GET", "/v1/events", params=params)
        return [wire.logged_of(json.decode(line)) for line in body.splitlines()]

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _send(self, ask: Send) -> Sent | FairwayError:
        """Under an id made here, so that a repeat is known as one."""
        id = ask.id or self._source.uuid7()
        named = replace(ask, id=id)
        try:
            # What the engine would refuse need not travel, and might not fit a header.
            send.check(ask)
            if ask.queue is None:
                raise InvalidInput("queue", "over HTTP a send names its queue")
            path = f"{_queue(ask.queue)}/{quote(id, safe='')}"
            body = await self._repeated(
                "PUT", path, data=named.body, headers=wire.send_headers(named)
            )
        except FairwayError as error:
            return error
        return json.decode(body, type=Sent)

    async def _settle(self, ask: Settle) -> Settled | FairwayError:
        path = f"{_queue(ask.target)}/{quote(ask.id, safe='')}/ack/{quote(ask.ack_id, safe='')}"
        facts = wire.SettleFacts(
            ask.reason, ask.code, None if ask.delay is None else ask.delay // MS, ask.severity
        )
        try:
            settle.prove(ask)
            if ask.verb is Verb.ACK:
                body = await self._repeated("DELETE", path)
            else:
                body = await self._repeated(
                    "POST", f"{path}/{ask.verb.value}", data=json.encode(facts)
                )
        except FairwayError as error:
            return error
        return json.decode(body, type=Settled)

    async def _repeated(self, method: str, path: str, **request: Any) -> bytes:
        pause = PAUSE
        for _ in range(TRIES - 1):
            try:
                return await self._once(method, path, **request)
            except StoreUnavailable:
                await asyncio.sleep(pause)
                pause *= 2
        return await self._once(method, path, **request)

    async def _once(
        self, method: str, path: str, *, timeout: float = PATIENCE, **request: Any
    ) -> bytes:
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with (
                self._room,
                self._session().request(
                    method, self._base + path, timeout=limit, **request
                ) as reply,
            ):
                body = await reply.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None
        if reply.status >= 400:
            raise problems.error_of(reply.status, body)
        return body

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(trust_env=False, auto_decompress=False)
        return self._http

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"no answer from {self._base} ({type(error).__name__}: {error}); whether the call was "
            "done is not known"
        )


def _queue(name: str) -> str:
    return f"/v1/queues/{quote(name, safe='')}/messages"
