"""Does a row belong to a scan? The closed set of filters, for the stores in Python."""

from __future__ import annotations

from fairway.core.records import Delivery, Filter, Message


def picks(row: Delivery, message: Message | None, where: Filter) -> bool:
    exact = (
        (where.target, row.target),
        (where.organization, row.organization),
        (where.state, row.state.value),
        (where.reason, row.memo.reason),
        (where.object, message.object if message else None),
        (where.key, message.key if message else None),
    )
    if any(wanted is not None and wanted != found for wanted, found in exact):
        return False
    if where.since is not None and row.at < where.since:
        return False
    if where.until is not None and row.at >= where.until:
        return False
    topics = message.topics if message else []
    return where.topic is None or any(topic.startswith(where.topic) for topic in topics)
