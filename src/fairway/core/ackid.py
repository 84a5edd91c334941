"""The proof of a lease, as text: which delivery, which grant, and the grant's random claim id."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from binascii import b2a_base64

from msgspec import DecodeError, Struct, ValidationError, msgpack

from fairway.core.errors import LeaseLost
from fairway.core.records import Delivery


class Proof(Struct, frozen=True, gc=False, array_like=True):
    """What an ack id says."""

    organization: str
    generation: int
    token: int
    claim: bytes


_encode = msgpack.Encoder().encode
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_proof = msgpack.Decoder(Proof)


def ack_id(delivery: Delivery) -> str:
    """For a delivery that was just granted."""
    assert delivery.lease is not None
    proof = Proof(delivery.organization, delivery.generation, delivery.token, delivery.lease.claim)
    return b2a_base64(_encode(proof)).translate(_URL_SAFE, b"=\n").decode()


def read(text: str) -> Proof:
    """What it says, or LeaseLost: a text that was never an ack id proves no lease."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return _proof.decode(urlsafe_b64decode(padded))
    except (UnicodeEncodeError, NotBase64, ValueError, DecodeError, ValidationError):
        raise LeaseLost(
            "this ack id proves no lease: use the one that came with the message"
        ) from None
