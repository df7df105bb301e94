"""How a count is written with its noun, in texts for people."""

from __future__ import annotations


def counted(count: float, noun: str, *, plural: str | None = None, spec: str = ",") -> str:
    """`1 episode`, `2 episodes`, `1,000 episodes`, `+1 point`, `1.0 points`.

    Args:
        noun: For one; a verb that goes with it may follow (`episode is`).
        plural: For any other count, if it is not `noun` with an s.
        spec: How the number is formatted.
    """
    number = format(count, spec)
    # As it is read: 1.2 written as 1 is one, and 1.0 is not.
    is_one = number.lstrip("+-") == "1"
    return f"{number} {noun if is_one else plural or f'{noun}s'}"
