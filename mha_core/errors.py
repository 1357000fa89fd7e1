"""The errors a user can cause. Each names the field, the value, the rule and what would work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ConfigError(ValueError):
    """A configuration, an input or a mask that cannot run.

    Attributes:
        field: name of the parameter at fault, as the user wrote it.
        value: the value that was refused.
        rule: the rule it breaks, in one sentence.
        repairs: settings that would work, nearest first; each maps field names to values,
            so that a page can offer them as buttons.
    """

    def __init__(
        self,
        field: str,
        value: Any,
        rule: str,
        *,
        works: str = "",
        repairs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        self.works = works
        self.repairs = tuple(dict(repair) for repair in repairs)
        message = f"{field}={value!r}: {rule}."
        super().__init__(f"{message} {works}." if works else message)


class BudgetError(ConfigError):
    """A run whose estimated peak memory exceeds the budget.

    Attributes:
        needed: estimated peak in bytes.
        limit: the budget in bytes.
    """

    def __init__(self, *, needed: int, limit: int, largest_time: int, time: int) -> None:
        self.needed = needed
        self.limit = limit
        repairs = [{"time": largest_time}] if largest_time >= 1 else []
        works = (
            f"The largest time that fits is {largest_time}"
            if repairs
            else "No time fits: lower batch, heads or d_model"
        )
        super().__init__(
            "time",
            time,
            f"this run needs about {human_bytes(needed)}, over the limit of {human_bytes(limit)}",
            works=works,
            repairs=repairs,
        )


def human_bytes(count: float) -> str:
    """Bytes with a binary unit: 512 B, 1.5 KiB, 2.0 GiB."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"
