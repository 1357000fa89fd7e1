"""Names and shapes from a file, short enough for a sentence: a file may hold any text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from torch import Tensor

MOST_LISTED = 12
LONGEST = 80


def short(text: str, longest: int = LONGEST) -> str:
    """The text, or its end: the last parts of a name tell more than the first."""
    text = text.encode("utf-8", "replace").decode()  # a pickle may hold half a surrogate pair
    return text if len(text) <= longest else f"…{text[-longest + 1 :]}"


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def listed(entries: Iterable[str], count: int) -> str:
    """The first dozen of `count` entries, and how many more there are."""
    first = ", ".join(short(entry) for entry in islice(entries, MOST_LISTED))
    return f"{first} and {count - MOST_LISTED} more" if count > MOST_LISTED else first


def names_and_shapes(state: Mapping[str, Tensor]) -> str:
    return listed(
        (f"{short(name)} {tuple(tensor.shape)}" for name, tensor in state.items()), len(state)
    )
