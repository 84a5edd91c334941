"""Every call, in one table: method, path, what answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from msgspec import DecodeError, ValidationError, json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairway.core import limits
from fairway.core.claim import Held, Receive
from fairway.core.errors import FairwayError, InvalidInput, TooLarge
from fairway.core.lifecycle import Verb
from fairway.core.send import Sent
from fairway.core.settle import Settle
from fairway.engine.verbs import Verbs
from fairway.server import wire

Handler = Callable[[Request, Verbs], Awaitable[Response]]
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
# A stored body may be anything: no browser may run it as a page of this server.
OPAQUE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}


class Call(NamedTuple):
    """One line of the table."""

    method: str
    path: str
    handler: Handler


async def put_message(request: Request, verbs: Verbs) -> Response:
    sent = await _send(request, verbs, request.path_params["id"])
    location = f"/v1/queues/{request.path_params['q']}/messages/{sent.id}"
    return _json(sent, {"X-MId": sent.id, "X-Outcome": sent.outcome, "Location": location})


async def post_message(request: Request, verbs: Verbs) -> Response:
    sent = await _send(request, verbs, None)
    return _json(sent, {"X-MId": sent.id, "X-Outcome": sent.outcome})


async def pop(request: Request, verbs: Verbs) -> Response:
    found = await _receive(request, verbs, 1)
    if not found:
        return Response(status_code=204)
    response = Response(found[0].message.body or b"", headers=OPAQUE)
    for name, value in wire.held_headers(found[0]).items():
        response.raw_headers.append((name.lower().encode(), value.encode()))
    return response


async def pop_many(request: Request, verbs: Verbs) -> Response:
    limit = wire.whole("limit", request.query_params.get("limit", "1"))
    return _json([wire.held_message(held) for held in await _receive(request, verbs, limit)])


async def ack(request: Request, verbs: Verbs) -> Response:
    return await _settle(request, verbs, Verb.ACK, wire.SettleFacts())


async def nak(request: Request, verbs: Verbs) -> Response:
    return await _settle(request, verbs, Verb.NAK, await _facts(request))


async def reject(request: Request, verbs: Verbs) -> Response:
    return await _settle(request, verbs, Verb.REJECT, await _facts(request))


async def log(request: Request, verbs: Verbs) -> Response:
    return _json(await verbs.log())


async def log_range(request: Request, verbs: Verbs) -> Response:
    asked = request.query_params
    for field in ("from", "to"):
        if field not in asked:
            raise InvalidInput(field, "name the first and the last position: ?from=1&to=100")
    columns = asked["columns"].split(",") if asked.get("columns") else None
    chunks = verbs.read_log(
        wire.whole("shard", request.path_params["shard"]),
        wire.whole("from", asked["from"]),
        wire.whole("to", asked["to"]),
        columns,
    )
    first = await anext(chunks)  # what is wrong with the range shows here, while it can be said

    async def stream() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return StreamingResponse(stream(), media_type=ARROW)


async def events(request: Request, verbs: Verbs) -> Response:
    asked = request.query_params
    page = await verbs.events(
        wire.whole("shard", asked.get("shard", "0")),
        wire.whole("after", asked.get("after", "0")),
        wire.whole("limit", asked.get("limit", str(limits.EVENTS_PAGE))),
    )
    return Response(b"".join(json.encode(wire.event(e)) + b"\n" for e in page), media_type=NDJSON)


async def healthz(request: Request, verbs: Verbs) -> Response:
    return _json({"status": "ok"})


CALLS = (
    Call("PUT", "/v1/queues/{q}/messages/{id}", put_message),
    Call("POST", "/v1/queues/{q}/messages", post_message),
    Call("GET", "/v1/queues/{q}/messages/pop", pop),
    Call("POST", "/v1/queues/{q}/messages/pop", pop),
    Call("GET", "/v1/queues/{q}/messages/pop-many", pop_many),
    Call("POST", "/v1/queues/{q}/messages/pop-many", pop_many),
    Call("DELETE", "/v1/queues/{q}/messages/{id}/ack/{ack}", ack),
    Call("POST", "/v1/queues/{q}/messages/{id}/ack/{ack}/nak", nak),
    Call("POST", "/v1/queues/{q}/messages/{id}/ack/{ack}/reject", reject),
    Call("GET", "/v1/log", log),
    Call("GET", "/v1/log/{shard}", log_range),
    Call("GET", "/v1/events", events),
    Call("GET", "/healthz", healthz),
)


async def _send(request: Request, verbs: Verbs, id: str | None) -> Sent:
    body = await _body(request, limits.BODY_BYTES)
    ask = wire.send_of(request.path_params["q"], id, request.headers.raw, body)
    answer = (await verbs.send([ask]))[0]
    if isinstance(answer, FairwayError):
        raise answer
    return answer


async def _receive(request: Request, verbs: Verbs, limit: int) -> list[Held]:
    asked = request.query_params
    window = asked.get("visibilityWindow")
    ask = Receive(
        queue=request.path_params["q"],
        limit=limit,
        wait=wire.milliseconds("wait", asked.get("wait"), 0),
        window=None if window is None else wire.milliseconds("visibilityWindow", window, 0),
        consumer=asked.get("consumer", ""),
        service=asked.get("service", "default"),
    )
    return list(await verbs.receive(ask))


async def _settle(request: Request, verbs: Verbs, verb: Verb, facts: wire.SettleFacts) -> Response:
    path = request.path_params
    delay = None if facts.delay_ms is None else facts.delay_ms * limits.MS
    ask = Settle(
        verb, path["q"], path["id"], path["ack"], facts.reason, facts.code, facts.severity, delay
    )
    answer = (await verbs.settle([ask]))[0]
    if isinstance(answer, FairwayError):
        raise answer
    return _json(wire.SettledReply(answer.outcome, answer.state, wire.lifecycle(answer.state)))


async def _facts(request: Request) -> wire.SettleFacts:
    body = await _body(request, limits.SETTLE_BYTES)
    try:
        return json.decode(body or b"{}", type=wire.SettleFacts)
    except (ValidationError, DecodeError, RecursionError) as error:
        raise InvalidInput("body", f"{error}: may hold reason, code, severity, delayMs") from None


async def _body(request: Request, limit: int) -> bytes:
    """The whole body, or TooLarge as soon as it passes the limit."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge("body", f"more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _json(value: object, headers: dict[str, str] | None = None) -> Response:
    return Response(json.encode(value), headers=headers, media_type=JSON)
