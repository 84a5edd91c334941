"""The server's process: opens the store, listens, says where, ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable

import uvicorn

from fairway.core.errors import SettingsError
from fairway.loops.local import open_local
from fairway.server.app import LOOPBACK, build

GRACE = 5  # s; what is being answered may finish, then the connections are cut


def listen(host: str, port: int) -> socket.socket:
    """Loopback only, until there are keys: who can reach the port can read and change everything."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise SettingsError(
            f"--host {host}: without keys Fairway listens on loopback only (127.0.0.1, ::1, "
            "localhost); put an authenticating proxy in front to reach it from elsewhere"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Of the TCP protocol by name: asyncio switches Nagle's delay off only then.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(f"port {port} on {host} cannot be had: {error.strerror}") from None
    return listener


def serve(store: str, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM. `ready` is told the address once requests are answered."""
    # uvicorn raises the signal that ended it once more: SIGTERM must then end us as SIGINT does,
    # with the store closed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(store, listener, ready))


async def _serve(store: str, listener: socket.socket, ready: Callable[[str], None]) -> None:
    engine = await open_local(store)
    try:
        config = uvicorn.Config(
            build(engine, LOOPBACK),
            http="httptools",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        server = _Server(config)
        host, port = listener.getsockname()[:2]
        server.ready = lambda: ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await server.serve(sockets=[listener])
    finally:
        await engine.close()


class _Server(uvicorn.Server):
    ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()
