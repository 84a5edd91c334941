"""The options of a read, checked. Spark's own are case-insensitive, so these are too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark_fairway.errors import ConnectorError
from pyspark_fairway.offsets import EARLIEST, LATEST

NAMES: Final = (
    "url",
    "startingOffsets",
    "endingOffsets",
    "columns",
    "maxEventsPerPartition",
    "failOnDataLoss",
)


class Options(NamedTuple):
    """What was asked for; `url` and `columns` are None where they were not given."""

    url: str | None
    starting: str
    ending: str
    columns: tuple[str, ...] | None
    most: int
    fail_on_data_loss: bool


def parse(given: Mapping[str, str]) -> Options:
    """Refuses what it does not know: an option that is misspelt would silently do nothing."""
    by_name = {name.lower(): name for name in NAMES}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in by_name:
            raise _bad(f"there is no option {name!r}", f"choose among {', '.join(NAMES)}")
        found[by_name[name.lower()]] = value.strip()
    columns = found.get("columns")
    return Options(
        url=found.get("url"),
        starting=_offsets(found.get("startingOffsets", EARLIEST)),
        ending=_offsets(found.get("endingOffsets", LATEST)),
        columns=None if columns is None else tuple(c.strip() for c in columns.split(",")),
        most=_positive("maxEventsPerPartition", found.get("maxEventsPerPartition", "500000")),
        fail_on_data_loss=_truth("failOnDataLoss", found.get("failOnDataLoss", "true")),
    )


def _offsets(text: str) -> str:
    return text.lower() if text.lower() in (EARLIEST, LATEST) else text


def _positive(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise _bad(f"{name} is {text!r}", "give a whole number from 1")
    return int(text)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _bad(f"{name} is {text!r}", "give true or false")
    return text.lower() == "true"


def _bad(happened: str, remedy: str) -> ConnectorError:
    return ConnectorError("BAD_OPTION", happened, remedy)
