"""The packed block of the log, and the forms in which a store keeps the core's own parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.events import COLUMNS, KINDS, Event, pack, unpack
from fairway.core.records import (
    BORN,
    Lease,
    Memo,
    lease_of,
    memo_of,
    packed_lease,
    packed_memo,
)

TEXT = st.text(max_size=5)
NUMBER = st.integers(-(2**63), 2**63 - 1)
BY_KIND = {
    "int32": st.integers(0, 9),
    "int64": NUMBER,
    "instant": NUMBER,
    "string": TEXT,
    "binary": st.binary(max_size=4),
    "strings": st.lists(TEXT, max_size=3),
}
NAMES = dict(zip(COLUMNS[2:], Event.__struct_fields__, strict=True))
REQUIRED = ("at", "letter", "kind", "target", "organization", "id", "generation")
EVENTS = st.builds(
    Event,
    **{
        field: BY_KIND[KINDS[name]] if field in REQUIRED else st.none() | BY_KIND[KINDS[name]]
        for name, field in NAMES.items()
    },
)


@given(st.lists(EVENTS, min_size=1, max_size=8))
def test_what_was_packed_is_unpacked(events: list[Event]) -> None:
    assert unpack(pack(events)) == events


def test_a_column_of_one_value_costs_next_to_nothing() -> None:
    one = Event(at=1, letter="Q", kind="queued", target="q" * 80, organization="o", id="i" * 36)
    assert len(pack([one] * 1000)) < len(pack([one])) + 8


def test_a_block_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version"):
        unpack(
            b"\x09"
            + pack([Event(at=1, letter="Q", kind="k", target="t", organization="", id="i")])[1:]
        )


# Written once and kept: a store of an earlier version must stay readable.
GOLDEN_BLOCK = (
    "019202dc00189301c0c41000401e18240a060005000000000000009402c0c4080100000001000000c4024658"
    "9402c0c4080600000009000000c40f6c6561736564636f6d706c657465649200a1719402c0c4080200000000"
    "000000c402c3bc9402c0c4080100000002000000c4036162639301c0c4100200000000000000010000000000"
    "00009200c09301c4020100c410070000000000000000000000000000009200c09200c09200c09200c09200c0"
    "9200c09402c4020100c4080100000000000000c401019200c09200c09403c4020100c4080200000000000000"
    "9402c0c4080300000003000000c406712e61712e629200c09200c09200c09200c09200c0"
)
GOLDEN_MEMO = (
    "01de0006aa64656c6976657269657303a77265747269657302a66572726f727301ab726564656c697665726564"
    "c3a6726561736f6ea872656a6563746564a4636f6465a24531"
)
GOLDEN_LEASE = "0196c40c303132333435363738396162051ea6686f73743a31a762696c6c696e67a0"
EVENT = Event(
    at=1_700_000_000_000_000,
    letter="F",
    kind="leased",
    target="q",
    organization="ü",
    id="a",
    generation=2,
    token=7,
    fingerprint=b"\x01",
    topics=["q.a", "q.b"],
)
OTHER = Event(at=5, letter="X", kind="completed", target="q", organization="", id="bc", token=None)
MEMO = Memo(deliveries=3, retries=2, errors=1, redelivered=True, reason="rejected", code="E1")
LEASE = Lease(b"0123456789ab", 5, 30, "host:1", "billing")


def test_stored_forms_do_not_change() -> None:
    assert pack([EVENT, OTHER]).hex() == GOLDEN_BLOCK
    assert packed_memo(MEMO).hex() == GOLDEN_MEMO
    assert packed_lease(LEASE).hex() == GOLDEN_LEASE


def test_stored_forms_are_read_again() -> None:
    assert unpack(bytes.fromhex(GOLDEN_BLOCK)) == [EVENT, OTHER]
    assert memo_of(bytes.fromhex(GOLDEN_MEMO)) == MEMO
    assert lease_of(bytes.fromhex(GOLDEN_LEASE)) == LEASE
    assert (memo_of(packed_memo(BORN)), lease_of(packed_lease(None))) == (BORN, None)
    for form in (memo_of, lease_of):
        with pytest.raises(ValueError, match="version"):
            form(b"\x09x")
