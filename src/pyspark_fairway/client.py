"""The only part that speaks with a Fairway; it turns its errors into the connector's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from typing import Final

import fairway
from fairway.core.errors import FairwayError, LogGone, StoreUnavailable
from fairway.core.records import LogState
from pyspark_fairway.errors import ConnectorError
from pyspark_fairway.offsets import Range, check_identity

ENVIRONMENT: Final = "FAIRWAY_URL"


def url_of(given: str | None) -> str:
    """The url of a read: its option, else the environment."""
    url = given or os.environ.get(ENVIRONMENT)
    if not url:
        raise ConnectorError("NO_URL", "no url is given", f"set the option url, or {ENVIRONMENT}")
    if url.startswith("memory:"):
        raise ConnectorError(
            "BAD_URL",
            f"{url} lives inside one process, and Spark's workers are others",
            "read sqlite:///… or http://…",
        )
    return url


def log_of(url: str) -> LogState:
    """Identity, shards and bounds as they are now."""
    with _translated(url), contextlib.closing(fairway.connect(url_of(url))) as fw:
        return fw.log()


def chunks(url: str, part: Range, columns: Sequence[str]) -> Iterator[bytes]:
    """One Arrow IPC stream of a range, in pieces of any size."""
    with _translated(url), contextlib.closing(fairway.connect(url)) as fw:
        check_identity(part.log, fw.log())
        yield from fw.read_log(part.shard, part.first, part.last, columns)


@contextlib.contextmanager
def _translated(url: str) -> Generator[None]:
    try:
        yield
    except LogGone as error:
        raise ConnectorError(
            "DATA_LOSS", f"events went past their retention while being read ({error})",
            "run it again; a longer eventsMs on the server keeps them longer",
        ) from error  # fmt: skip
    except (StoreUnavailable, OSError) as error:
        raise ConnectorError(
            "UNREACHABLE", f"{url} cannot be read now: {error or type(error).__name__}",
            "start it, or check the url",
        ) from error  # fmt: skip
    except FairwayError as error:
        raise ConnectorError(
            "REFUSED", f"{url} refused the read ({error.code}: {error})", "what it says"
        ) from error
