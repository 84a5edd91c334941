"""What a decision of the core is made of: what chance gave it, and what it wants committed."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from fairway.core.records import Change

A = TypeVar("A")


class Chance(Struct, frozen=True, gc=False):
    """Drawn by the engine for one decision; the core draws nothing itself."""

    sequence: int  # larger than any that this engine gave before: second part of a place in line
    draw: float  # 0 ≤ draw < 1


class Plan(Struct, Generic[A], frozen=True, gc=False):
    """Commit this; if it goes through, that is the answer."""

    change: Change
    answer: A
