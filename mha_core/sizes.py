"""Sizes: integers of at least 1, and heads that divide d_model."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from mha_core.errors import ConfigError

# Far beyond what any memory holds, and small enough that a refusal is quick to write.
MAX_SIZE = 2**31 - 1


def is_integer(value: Any, low: int, high: int) -> bool:
    """True is an int in Python, and not here."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def nearest_integer(value: Any, low: int, high: int) -> int:
    """The integer from `low` to `high` nearest to `value`; `low` for what is no number."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not value > low:
        return low
    return high if value >= high else round(float(value))


def check_size(field: str, value: Any, fits: Callable[[int], int] = int) -> None:
    """Refuses anything but an integer from 1 to MAX_SIZE.

    `fits` turns the nearest such integer into the nearest that the other fields allow too.
    """
    if is_integer(value, 1, MAX_SIZE):
        return
    if isinstance(value, bool) or not isinstance(value, int):
        rule = f"must be an integer, not {type(value).__name__}"
    else:
        rule = "must be at least 1" if value < 1 else f"must be at most {MAX_SIZE}"
    nearest = fits(nearest_integer(value, 1, MAX_SIZE))
    raise ConfigError(
        field, value, rule, works=f"Nearest that works: {nearest}", repairs=[{field: nearest}]
    )


def check_widths(d_model: Any, heads: Any) -> None:
    """Refuses d_model and heads unless both are sizes and heads divides d_model."""

    def multiple(number: int) -> int:
        return _multiples(number, heads)[0] if is_integer(heads, 1, MAX_SIZE) else number

    check_size("d_model", d_model, multiple)
    check_size("heads", heads, lambda number: _nearest_divisors(d_model, number)[0])
    check_heads(d_model, heads)


def divisors(number: int) -> list[int]:
    """Every head count that divides `number`, ascending."""
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return sorted({*small, *(number // i for i in small)})


def _nearest_divisors(number: int, to: int) -> list[int]:
    """The divisors of `number`, nearest to `to` first."""
    return sorted(divisors(number), key=lambda count: (abs(count - to), count))


def _multiples(number: int, of: int) -> list[int]:
    """The multiples of `of` on either side of `number`, nearest first."""
    below = number - number % of
    around = [width for width in (below, below + of) if 1 <= width <= MAX_SIZE]
    return sorted(around, key=lambda width: abs(width - number))


def check_heads(d_model: int, heads: int) -> None:
    """Refuses a d_model that heads does not divide, naming the nearest of both that work."""
    if d_model % heads == 0:
        return
    widths = _multiples(d_model, heads)
    counts = divisors(d_model)
    nearest = _nearest_divisors(d_model, heads)
    # All divisors where they are few; otherwise the closest, so that the sentence stays one.
    listed = counts if len(counts) <= 12 else sorted(nearest[:8])
    works = (
        f"Nearest that work: d_model {' or '.join(map(str, sorted(widths)))}, "
        f"or heads {', '.join(map(str, listed))}"
    )
    raise ConfigError(
        "d_model",
        d_model,
        f"must be a multiple of heads={heads}, so that d_k = d_model / heads is an integer",
        works=works,
        repairs=[{"d_model": w} for w in widths] + [{"heads": count} for count in nearest[:3]],
    )
