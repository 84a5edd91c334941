"""Errors as replies: `application/problem+json`, and back into errors for the client."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import DecodeError, json

from fairway.core import errors
from fairway.core.errors import FairwayError

MEDIA = "application/problem+json"
PREFIX = "urn:fairway:problem:"
RETRY_AFTER = "1"  # s; for what may go through later

STATUS: dict[type[FairwayError], int] = {
    errors.InvalidInput: 400,
    errors.TooLarge: 413,
    errors.ConsumerRequired: 400,
    errors.TooManyTargets: 507,
    errors.NotFound: 404,
    errors.LogGone: 410,
    errors.LeaseLost: 409,
    errors.AlreadySettled: 409,
    errors.Leased: 409,
    errors.Ended: 409,
    errors.NotPlaced: 409,
    errors.Duplicate: 409,
    errors.Exists: 409,
    errors.NotEmpty: 409,
    errors.QueueFull: 429,
    errors.Contended: 503,
    errors.Overloaded: 503,
    errors.StoreUnavailable: 503,
}
BY_CODE = {kind.code: kind for kind in STATUS}


class Problem(NamedTuple):
    """A reply."""

    status: int
    headers: dict[str, str]
    body: bytes


def of(error: FairwayError) -> Problem:
    return problem(
        STATUS.get(type(error), 500), error.code, error.detail, error.retryable, **error.facts
    )


def problem(
    status: int, code: str, detail: str, retryable: bool = False, **facts: object
) -> Problem:
    body = {
        "type": PREFIX + code,
        "title": code.replace("-", " "),
        "status": status,
        "detail": detail,
        "retryable": retryable,
        **facts,
    }
    headers = {"Content-Type": MEDIA}
    if retryable:
        headers["Retry-After"] = RETRY_AFTER
    return Problem(status, headers, json.encode(body))


def error_of(status: int, body: bytes) -> FairwayError:
    """The client's way back: the same error as the engine's."""
    try:
        told: dict[str, Any] = json.decode(body, type=dict[str, Any])
    except DecodeError:
        told = {}
    detail = str(told.pop("detail", f"the server answered {status}"))
    kind = BY_CODE.get(str(told.pop("type", "")).removeprefix(PREFIX))
    if kind is None:
        return errors.StoreUnavailable(detail) if status >= 500 else errors.CallerError(detail)
    facts = {k: v for k, v in told.items() if k not in ("title", "status", "retryable")}
    if issubclass(kind, errors.InvalidInput):
        field = str(facts.pop("field", "?"))
        return kind(field, detail.removeprefix(f"{field}: "), **facts)
    return kind(detail, **facts)
