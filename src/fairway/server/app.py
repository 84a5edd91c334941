"""The application: the table of calls behind its guards. Safe by default, with keys or without."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairway.core.errors import FairwayError
from fairway.engine.verbs import Verbs
from fairway.server import problems
from fairway.server.problems import Problem
from fairway.server.routes import CALLS, Handler

log = logging.getLogger("fairway.server")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


def build(verbs: Verbs, hosts: Collection[str] = LOOPBACK) -> ASGIApp:
    """The ASGI application; `hosts` are the names under which it may be addressed."""
    table: dict[str, dict[str, Handler]] = defaultdict(dict)
    for call in CALLS:
        table[call.path][call.method] = call.handler
    # Fixed words before parameters: `pop` is never an id.
    paths = sorted(table, key=lambda path: (path.count("{"), path))
    routes = [_route(path, table[path], verbs) for path in paths]
    return Guard(Starlette(routes=routes, exception_handlers={404: _no_such_path}), hosts)


def _route(path: str, methods: dict[str, Handler], verbs: Verbs) -> Route:
    allowed = ", ".join(sorted(methods))

    async def answer(request: Request) -> Response:
        handler = methods.get(request.method)
        if handler is None:  # HEAD too: it must not lease what it cannot carry
            refused = problems.problem(405, "method", f"{path} answers {allowed}")
            refused.headers["Allow"] = allowed
            return _reply(refused)
        try:
            return await handler(request, verbs)
        except FairwayError as error:
            return _reply(problems.of(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except Exception:
            log.exception("%s %s failed", request.method, path)
            return _reply(
                problems.problem(500, "internal", "this is a fault of Fairway; see its log")
            )

    every = ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"]
    return Route(path, answer, methods=every)


async def _no_such_path(request: Request, _: Exception) -> Response:
    return _reply(problems.problem(404, "not-found", f"there is no path {request.url.path[:200]}"))


def _reply(problem: Problem) -> Response:
    return Response(problem.body, problem.status, problem.headers)


class Guard:
    """Refuses what comes from another site's page; lets no reply be kept by a cache."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(Headers(scope=scope))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"cache-control", b"no-store")]
            await send(message)

        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() not in self._hosts:
            return _reply(
                problems.problem(421, "host", f"{host[:100]!r} is no name of this server")
            )
        origin = headers.get("origin")
        foreign = origin is not None and origin not in (f"http://{host}", f"https://{host}")
        if foreign or headers.get("sec-fetch-site") == "cross-site":
            return _reply(
                problems.problem(403, "origin", "requests from other sites' pages are refused")
            )
        return None
