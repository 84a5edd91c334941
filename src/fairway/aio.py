"""The public verbs, for asyncio. `fairway.connect` offers the same ones to ordinary code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import json

from fairway.core.claim import Held, Receive
from fairway.core.errors import FairwayError, InvalidInput
from fairway.core.events import Logged
from fairway.core.limits import EVENTS_PAGE, SECOND
from fairway.core.records import LogState
from fairway.core.send import PRIORITIES, Send, Sent
from fairway.core.settle import SETTLES, Settle, Settled
from fairway.core.topics import root
from fairway.delivery import Facts
from fairway.engine.verbs import Verbs

A = TypeVar("A")
Span = float | timedelta  # seconds, or a timedelta


async def connect(url: str) -> Fairway:
    """Opens `sqlite:///orders.db`, `memory://` or a server at `http://host:7070`."""
    if url.startswith(("http://", "https://")):
        from fairway.remote.remote import Remote

        return Fairway(Remote(url))
    from fairway.loops.local import open_local

    return Fairway(await open_local(url))


class Fairway:
    """A queue system that was opened; close it, or use it in `async with`."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def send(
        self,
        topic: str,
        body: Any,
        *,
        id: str | None = None,
        organization: str | None = None,
        priority: int | str = "normal",
        delay: Span = 0,
        object: str | None = None,
        key: str | None = None,
        correlation_id: str | None = None,
        timestamp: str | None = None,
        headers: Mapping[str, str] | None = None,
        mime_type: str | None = None,
    ) -> Sent:
        """Sends one message to the queue named by the topic's root (`orders.created` → `orders`).

        `bytes` go as they are, a `str` as text, anything else as JSON. The same id with the same
        content is sent once, however often it is repeated. Accepted when this returns.
        """
        payload, kind = _payload(body)
        ask = Send(
            queue=root(topic),
            topics=[topic],
            body=payload,
            mime_type=mime_type or kind,
            id=id,
            organization=organization or "",
            priority=_priority(priority),
            delay=_span("delay", delay),
            object=object,
            key=key,
            correlation_id=correlation_id,
            timestamp=timestamp,
            headers=dict(headers or {}),
        )
        return _only(await self._verbs.send([ask]))

    async def receive(
        self,
        queue: str,
        *,
        limit: int = 1,
        wait: Span = 0,
        visibility_window: Span | None = None,
        consumer: str = "",
        service: str = "default",
    ) -> list[Delivery]:
        """Leases up to `limit` messages, waiting up to `wait` (20 s at most) for the first.

        Each is yours for `visibility_window` (30 s): ack, nak or reject it in that time, or it goes
        back by itself.
        """
        ask = Receive(
            queue=queue,
            limit=limit,
            wait=_span("wait", wait),
            window=None
            if visibility_window is None
            else _span("visibility_window", visibility_window),
            consumer=consumer,
            service=service,
        )
        return [Delivery(held, self) for held in await self._verbs.receive(ask)]

    async def settle(
        self,
        queue: str,
        id: str,
        ack_id: str,
        outcome: str,
        *,
        reason: str | None = None,
        code: str | None = None,
        severity: str | None = None,
        delay: Span | None = None,
    ) -> Settled:
        """Settles a lease by its ack id: `outcome` is ack, nak or reject."""
        if outcome not in _OUTCOMES:
            raise InvalidInput("outcome", f"{outcome!r} is not one of {', '.join(_OUTCOMES)}")
        span = None if delay is None else _span("delay", delay)
        ask = Settle(_OUTCOMES[outcome], queue, id, ack_id, reason, code, severity, span)
        return _only(await self._verbs.settle([ask]))

    async def log(self) -> LogState:
        """The identity of the event log, and what can be read of each shard."""
        return await self._verbs.log()

    def read_log(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None = None
    ) -> AsyncIterator[bytes]:
        """The positions first..last as one Arrow IPC stream, in chunks of bytes."""
        return self._verbs.read_log(shard, first, last, columns)

    async def events(self, *, shard: int = 0, after: int = 0) -> AsyncIterator[Logged]:
        """What happened behind a position, up to what can be read now."""
        while page := await self._verbs.events(shard, after, EVENTS_PAGE):
            for logged in page:
                yield logged
            after = page[-1].position

    async def close(self) -> None:
        await self._verbs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Delivery(Facts):
    """A message under a lease. In `async with` it is acked at the end, or naked by an exception."""

    def __init__(self, held: Held, fairway: Fairway) -> None:
        super().__init__(held)
        self._fairway = fairway

    async def ack(self) -> Settled:
        """Done: the message goes to the history."""
        return await self._settle("ack")

    async def nak(self, reason: str | None = None, *, delay: Span | None = None) -> Settled:
        """Failed, try again: back to the queue after the back-off, or after `delay`."""
        return await self._settle("nak", reason=reason, delay=delay)

    async def reject(
        self, reason: str | None = None, *, code: str | None = None, severity: str = "error"
    ) -> Settled:
        """Can never be done: to the dead letters. Severity `critical` asks for a person."""
        return await self._settle("reject", reason=reason, code=code, severity=severity)

    async def leave(self, error: BaseException | None) -> None:
        """What the end of a `with` does: ack, or nak with the exception as the reason."""
        if error is None:
            await self.ack()
            return
        try:
            await self.nak(f"{type(error).__name__}: {error}"[:200])
        except FairwayError as lost:  # the handler's own exception is the one to raise
            error.add_note(f"the message was not given back: {lost}")

    async def _settle(
        self,
        outcome: str,
        *,
        reason: str | None = None,
        code: str | None = None,
        severity: str | None = None,
        delay: Span | None = None,
    ) -> Settled:
        return await self._fairway.settle(
            self.queue,
            self.id,
            self.ack_id,
            outcome,
            reason=reason,
            code=code,
            severity=severity,
            delay=delay,
        )

    async def __aenter__(self) -> Self:
        self.check_held()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.leave(error)


_OUTCOMES = {name: SETTLES[name] for name in ("ack", "nak", "reject")}


def _payload(body: Any) -> tuple[bytes, str]:
    if isinstance(body, bytes | bytearray):
        return bytes(body), "application/octet-stream"
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    try:
        return json.encode(body), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("body", f"is no JSON value, text or bytes: {error}") from None


def _priority(given: int | str) -> int:
    if isinstance(given, int):
        return given
    if given not in PRIORITIES:
        raise InvalidInput("priority", f"{given!r} is not one of {', '.join(PRIORITIES)}")
    return PRIORITIES[given]


def _span(field: str, given: Span) -> int:
    """Seconds as µs; an int that big numbers, NaN and infinities cannot slip through."""
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not -1e15 < seconds < 1e15:
        raise InvalidInput(field, f"{given!r} is no span of seconds")
    return round(seconds * SECOND)


def _only(answers: Sequence[A | FairwayError]) -> A:
    """The answer of a batch of one; its error is raised."""
    answer = answers[0]
    if isinstance(answer, FairwayError):
        raise answer
    return answer
