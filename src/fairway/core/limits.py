"""Every bound, with its unit and its reason. A limit that is not here does not exist."""

from __future__ import annotations

from typing import Final

MS: Final = 1_000  # µs; instants and spans are integers of µs inside Fairway
SECOND: Final = 1_000_000  # µs
DAY: Final = 24 * 3600 * SECOND  # µs

BODY_BYTES: Final = (
    256 * 1024
)  # larger payloads belong in a store of files, with their address here
TARGET_CHARS: Final = 80  # fits an index name of every store, with a prefix
ID_CHARS: Final = 128  # a UUID and a prefix, several times over
NAME_BYTES: Final = 128  # organization, object, key, replaces, consumer, service, code
REASON_BYTES: Final = 1024  # a sentence and the end of a trace; more belongs in a log
SETTLE_BYTES: Final = 8 * 1024  # the body of a nak or a reject
TOPIC_BYTES: Final = 255  # fits an indexed column of every store
TOPICS: Final = 32  # a message; more is a fan-out bomb
MIME_CHARS: Final = 255  # with its parameters; longer ones are not found in the wild

HEADERS: Final = 32  # free ones, a message
HEADER_BYTES: Final = 8 * 1024  # all of them

MAX_ACTIVE: Final = 10_000  # leases of a service in a queue; more is no limit worth counting
MAX_QUEUED: Final = 100_000_000  # deliveries in a target
CONFIRMATIONS: Final = 16  # distinct consumers; each set of confirmers is a lane of its own
BACKOFF_DELAYS: Final = 100  # as many as there can be retries
ATTEMPTS: Final = 20  # leases remembered of a delivery: the first, and the last ones
TARGETS: Final = 1_000  # queues and channels of a store
SUBSCRIPTIONS: Final = 32  # topics of a channel
TOMBSTONE: Final = 600 * SECOND  # a force-deleted name is not made again by a send
COPIES_PER_SECOND: Final = 100  # of recover and replay, unless asked otherwise
RATE: Final = 10_000  # copies a second that may be asked for
TASK_PAGE: Final = 100  # rows of one change of a task
TASKS: Final = 1_000  # looked at in one step
TASK_KEPT: Final = 30 * DAY  # its answer is remembered
CLOSING: Final = 10 * SECOND  # a deletion that did not end by then has failed
PRUNED: Final = 1_000  # removed in one step of retention
EVENTS_KEPT: Final = 30 * DAY  # events; whoever wants them longer reads them into a lake
RETAIN_EVERY: Final = 60 * SECOND  # nothing that rests is kept more than this past its time

RECEIVE_MESSAGES: Final = 1_000  # a receive; one claim stays well below a second on every store
RECEIVE_BYTES: Final = 4 * 1024 * 1024  # a reply of pop-many; a client holds it in memory
WAIT_MAX: Final = 20 * SECOND  # a long poll; below the idle time-out of common proxies
WINDOW_MIN: Final = 1 * SECOND  # a lease; shorter ones lapse on the way to their holder
WINDOW_MAX: Final = 12 * 3600 * SECOND  # in all; a job that hangs is given to another then
DELAY_MAX: Final = 366 * 24 * 3600 * SECOND  # a year; later ones belong in a calendar

DECISIONS: Final = 8  # rounds of decide and commit before an ask is answered `contended`
JOINED_ASKS: Final = 1_000  # asks joined into one commit; bounds how long a caller waits for others
WAITING_ASKS: Final = 20_000  # asks held in memory before callers are told to try again
SWEEP_PAGE: Final = 500  # lapsed leases returned in one commit
SWEEP_EVERY: Final = (
    1 * SECOND
)  # so a lapsed delivery is due again at the latest 1 s after its lease
LANES_PAGE: Final = 64  # lanes looked at by one receive
READ_ROWS: Final = 20_000  # events in one batch of an Arrow stream
EVENTS_PAGE: Final = 1_000  # events in one page of the NDJSON log
