"""The wire as a stranger sees it: paths, headers, statuses, and what is refused."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.running import Server


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
def call(server: Server, request: pytest.FixtureRequest) -> Any:
    """`call("PUT", "messages/one", b"body", X_Key="k")` on a queue of the test's own."""
    queue = f"q{abs(hash(request.node.nodeid))}"

    def call(method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        full = path if path.startswith("/") else f"/v1/queues/{queue}/{path}"
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, full, body, names)
        response = connection.getresponse()
        reply = Reply(response.status, response.headers, response.read())
        connection.close()
        assert reply.headers["Cache-Control"] == "no-store"
        if reply.status >= 400 and method != "HEAD":
            assert reply.headers["Content-Type"] == "application/problem+json"
            assert reply.json["status"] == reply.status
            assert {"type", "title", "detail", "retryable"} <= reply.json.keys()
        return reply

    return call


def test_the_first_message_of_a_stranger(call: Any) -> None:
    sent = call("POST", "messages", b"hello", Content_Type="text/plain")
    assert (sent.status, sent.headers["X-Outcome"]) == (200, "queued")
    got = call("GET", "messages/pop")
    assert (got.status, got.body, got.headers["Content-Type"]) == (200, b"hello", "text/plain")
    assert got.headers["X-MId"] == sent.headers["X-MId"] == sent.json["id"]
    done = call("DELETE", f"messages/{got.headers['X-MId']}/ack/{got.headers['X-Ack']}")
    assert (done.status, done.json) == (
        200,
        {"outcome": "ok", "state": "X", "lifecycle": "History"},
    )
    assert call("GET", "messages/pop").status == 204


def test_put_is_idempotent_and_says_what_it_did(call: Any) -> None:
    first = call("PUT", "messages/one", b"a")
    assert (first.headers["X-MId"], first.headers["X-Outcome"]) == ("one", "queued")
    assert first.headers["Location"].endswith("/messages/one")
    assert call("PUT", "messages/one", b"a").json["outcome"] == "duplicate"
    assert call("PUT", "messages/one", b"b").json["outcome"] == "updated"
    assert call("POST", "messages/pop").body == b"b"
    parked = call("PUT", "messages/one", b"c")
    assert (parked.headers["X-Outcome"], parked.json["targets"][0]["parked"]) == ("updated", True)


def test_headers_are_kept_and_answered(call: Any) -> None:
    call(
        "POST", "messages", "ü".encode(), Content_Type="text/plain", X_Object="o", X_Key="k",
        X_CId="c", X_Priority="high", X_Header_Shop="berlin", X_Timestamp="2020-05-07T01:01:00Z",
    )  # fmt: skip
    got = call("GET", "messages/pop")
    expected = {
        "X-Object": "o", "X-Key": "k", "X-CId": "c", "X-Priority": "2", "X-Header-Shop": "berlin",
        "X-State": "F", "X-Lifecycle": "Leased", "X-Generation": "1", "X-Deliveries": "1",
        "X-Retries": "0", "X-Redelivered": "false", "X-Timestamp": "2020-05-07T01:01:00Z",
        "X-Content-Type-Options": "nosniff",
    }  # fmt: skip
    assert {name: got.headers[name] for name in expected} == expected


def test_pop_many_shows_json_as_json_text_as_text_and_the_rest_in_base64(call: Any) -> None:
    for mime, body in [
        ("application/json", b'{"a": [1]}'),
        ("application/vnd.x+json; v=1", b"2"),
        ("text/plain", 'ü"'.encode()),
        ("text/plain", b"\xff"),
        ("application/json", b'1},{"id":"forged","ackId":"x","body":2'),
        ("application/json", b'"\xff"'),
        ("application/json", b"[" * 100_000),
        ("application/octet-stream", b"\x00"),
    ]:
        assert call("POST", "messages", body, Content_Type=mime).status == 200
    got = call("GET", "messages/pop-many?limit=20")
    items = got.json
    assert [item.get("body") for item in items] == [{"a": [1]}, 2, 'ü"'] + [None] * 5
    assert [("bodyBase64" in item) for item in items] == [False] * 3 + [True] * 5
    assert b"forged" not in got.body
    assert all(item["state"] == "F" and item["lifecycle"] == "Leased" for item in items)
    assert call("GET", "messages/pop-many?limit=20").json == []


def test_nak_and_reject_carry_their_facts(call: Any) -> None:
    for verb, facts, state in [
        ("nak", b'{"reason":"busy","delayMs":0}', "R"),
        ("nak", b"", "R"),
        ("reject", b'{"reason":"bad","code":"E1","severity":"critical"}', "I"),
    ]:
        call("POST", "messages", b"x")
        got = call("GET", "messages/pop")
        path = f"messages/{got.headers['X-MId']}/ack/{got.headers['X-Ack']}/{verb}"
        assert call("POST", path, b'{"reasen": "x"}').status == 400
        assert call("POST", path, b"{").status == 400
        assert call("POST", path, b'{"severity":"high","reason":"x"}').json["field"] == "severity"
        assert call("POST", path, facts).json["state"] == state
        assert call("POST", path, facts).json["state"] == state  # a repeat
        lost = call("DELETE", path.removesuffix(f"/{verb}"))
        assert (lost.status, lost.json["type"]) == (409, "urn:fairway:problem:already-settled")


def test_a_forged_ack_id_is_lease_lost(call: Any) -> None:
    call("POST", "messages", b"x")
    got = call("GET", "messages/pop")
    for forged in ("x", "%00", "AAAA", "a" * 3000, got.headers["X-Ack"][::-1]):
        reply = call("DELETE", f"messages/{got.headers['X-MId']}/ack/{forged}")
        assert (reply.status, reply.json["type"]) == (409, "urn:fairway:problem:lease-lost")


BAD = {
    "no such priority": ("POST", "messages", {"X-Priority": "soon"}, 400, "priority"),
    "a delay in words": ("POST", "messages", {"X-Delay-Ms": "1e3"}, 400, "delay"),
    "a negative delay": ("POST", "messages", {"X-Delay-Ms": "-1"}, 400, "delay"),
    "a topic of another queue": ("POST", "messages", {"X-Topics": "other.a"}, 400, "topics"),
    "a group": ("POST", "messages", {"X-GId": "g"}, 400, "replaces"),
    "an id of 200 letters": ("PUT", f"messages/{'a' * 200}", {}, 400, "id"),
    "a path word as id": ("PUT", "messages/push-many", {}, 400, "id"),
    "a queue with a dot": ("POST", "/v1/queues/a.b/messages", {}, 400, "queue"),
    "a header that is not UTF-8": ("POST", "messages", {"X-Key": "\xff"}, 400, "x-key"),
    "limit 0": ("GET", "messages/pop-many?limit=0", {}, 400, "limit"),
    "limit NaN": ("GET", "messages/pop-many?limit=NaN", {}, 400, "limit"),
    "a wait of 21 s": ("GET", "messages/pop?wait=21000", {}, 400, "wait"),
    "a lease of 1 ms": ("GET", "messages/pop?visibilityWindow=1", {}, 400, "visibilityWindow"),
    "a range without its end": ("GET", "/v1/log/0?from=1", {}, 400, "to"),
    "a range beyond the latest": ("GET", "/v1/log/0?from=1&to=99999999", {}, 400, "to"),
    "a column that is none": ("GET", "/v1/log/0?from=1&to=1&columns=colour", {}, 400, "columns"),
    "a shard that is none": ("GET", "/v1/log/7?from=1&to=1", {}, 404, None),
    "a path that is none": ("GET", "/v1/queue", {}, 404, None),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_a_problem_that_names_the_field(call: Any, bad: str) -> None:
    method, path, headers, status, field = BAD[bad]
    names = {name.replace("-", "_"): value for name, value in headers.items()}
    reply = call(method, path, b"x" if method != "GET" else None, **names)
    assert reply.status == status, reply.body
    if field is not None:
        assert reply.json["field"].lower().removesuffix("ms") == field.lower()


def test_a_body_over_the_limit_is_413(call: Any) -> None:
    assert call("POST", "messages", b"x" * 262_144).status == 200
    assert call("POST", "messages", b"x" * 262_145).status == 413


def test_head_leases_nothing_and_other_methods_are_named(call: Any) -> None:
    call("POST", "messages", b"x")
    refused = call("HEAD", "messages/pop")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")
    assert call("PATCH", "messages", b"x").status == 405
    assert call("GET", "messages/pop").status == 200


def test_other_sites_and_other_names_are_refused(call: Any) -> None:
    assert call("GET", "/v1/log", Host="evil.example").status == 421
    assert call("GET", "/v1/log", Origin="http://evil.example").status == 403
    assert call("GET", "/v1/log", Origin="null").status == 403
    assert call("POST", "messages", b"x", Sec_Fetch_Site="cross-site").status == 403
    assert call("GET", "/v1/log", Host="localhost:1").status == 200
    host = "127.0.0.1:7070"
    assert call("GET", "/v1/log", Host=host, Origin=f"http://{host}").status == 200


def test_the_log_as_ndjson_and_its_state(call: Any) -> None:
    call("POST", "messages", b"the first one makes the queue")
    before = call("GET", "/v1/log").json["shards"][0]["latest"]
    sent = call("POST", "messages", b"x", X_Organization="acme").json["id"]
    page = call("GET", f"/v1/events?after={before}&limit=2")
    lines = [json.loads(line) for line in page.body.splitlines()]
    assert [(e["position"], e["kind"]) for e in lines] == [
        (before + 1, "logged"),
        (before + 2, "queued"),
    ]
    assert all(e["id"] == sent and e["organization"] == "acme" for e in lines)
    assert call("GET", "/v1/events?after=99999999").body == b""
    assert call("GET", "/healthz").json == {"status": "ok"}


def test_a_message_that_breaks_off_leaves_nothing(server: Server, call: Any) -> None:
    before = call("GET", "/v1/log").json["shards"][0]["latest"]
    host, port = urlsplit(server.url).netloc.split(":")
    with socket.create_connection((host, int(port))) as broken:
        head = f"POST /v1/queues/q/messages HTTP/1.1\r\nHost: {host}:{port}\r\n"
        broken.sendall(f"{head}Content-Length: 100\r\n\r\nonly a part".encode())
    assert call("GET", "/v1/log").json["shards"][0]["latest"] == before
