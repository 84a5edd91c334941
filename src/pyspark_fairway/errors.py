"""The one exception of the connector; its text begins with a code that stays the same."""

from __future__ import annotations

import re


class ConnectorError(Exception):
    """`FAIRWAY_<code>: what happened; do what helps`. Spark shows nothing else of it."""

    def __init__(self, code: str, happened: str, remedy: str) -> None:
        super().__init__(code, happened, remedy)  # so that it can be pickled
        self.code = f"FAIRWAY_{code}"
        self.happened = happened
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.code}: {self.happened}; do {self.remedy}"


def behind(error: Exception) -> ConnectorError | None:
    """The connector's error that Spark wrapped in one of its own, as text, on the way."""
    if isinstance(error, ConnectorError):
        return error
    found = re.search(r"FAIRWAY_([A-Z_]+): (.*); do (.*)", str(error))
    return ConnectorError(*found.groups()) if found else None
