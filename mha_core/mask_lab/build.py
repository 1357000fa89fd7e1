"""A mask from its parts, and the code that builds the same one.

True = may attend, as everywhere in this package. A mask has two parts: the pattern (Tq, Tk), the
same for every batch item, and the padding (batch, 1, 1, Tk), which hides keys of one item. That is
also how `nn.MultiheadAttention` (`attn_mask`, `key_padding_mask`) and Hugging Face divide it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from mha_core import masks
from mha_core.errors import ConfigError
from mha_core.sizes import check_size, is_integer, nearest_integer

Side = Literal["right", "left"]
Cell = tuple[int, int, bool]

MAX_TIME = 4096  # a mask of this many queries and keys is 16 MB


@dataclass(frozen=True, kw_only=True)
class MaskSpec:
    """What a mask is made of. Parts hide: a cell is visible where every part lets it be.

    Attributes:
        time_q, time_k: queries Tq and keys Tk.
        causal: a query sees its own position and those before it.
        align: where Tq and Tk differ, as in `masks.causal`; query positions follow it.
        prefix: keys that every query sees, with causal after them (prefix language models,
            Raffel et al. 2020); implies causal. 0 for none.
        window: |query - key| < window. With causal a query sees `window` keys, itself among them
            (Mistral's sliding window). 0 for none.
        blocks: sizes of blocks that see only themselves: packed sequences, the last up to the end.
            One size repeats. Empty for none.
        lengths: keys of each batch item that are not padding. Empty for no padding.
        side: where the padding is.
        drawn: (query, key, visible) of cells set by hand; they win over the pattern.

    Raises:
        ConfigError: a field out of range, with the nearest value that works.
    """

    time_q: int
    time_k: int
    causal: bool = False
    align: masks.Align = "upper_left"
    prefix: int = 0
    window: int = 0
    blocks: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    side: Side = "right"
    drawn: tuple[Cell, ...] = ()

    def __post_init__(self) -> None:
        for field in ("time_q", "time_k"):
            value = getattr(self, field)
            check_size(field, value)
            _within(field, value, 1, MAX_TIME)
        if self.align not in ("upper_left", "lower_right"):
            raise ConfigError("align", self.align, "must be 'upper_left' or 'lower_right'")
        if self.side not in ("right", "left"):
            raise ConfigError("side", self.side, "must be 'right' or 'left'")
        _within("prefix", self.prefix, 0, self.time_k)
        _within("window", self.window, 0, MAX_TIME)
        for size in self.blocks:
            _within("blocks", size, 1, MAX_TIME)
        for length in self.lengths:
            _within("lengths", length, 0, self.time_k)
        for query, key, _ in self.drawn:
            _within("drawn query", query, 0, self.time_q - 1)
            _within("drawn key", key, 0, self.time_k - 1)

    @property
    def offset(self) -> int:
        """Position of query 0 among the keys."""
        return self.time_k - self.time_q if self.align == "lower_right" else 0

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> MaskSpec:
        """The inverse of `to_dict`, also after JSON, which knows no tuples.

        Raises:
            ConfigError: an unknown field, or a value out of range.
        """
        for name in fields:
            if name not in cls.__dataclass_fields__:
                works = ", ".join(cls.__dataclass_fields__)
                raise ConfigError(name, fields[name], "no such field", works=works)
        values = dict(fields)
        for name in ("blocks", "lengths"):
            values[name] = tuple(fields.get(name, ()))
        values["drawn"] = tuple((q, k, v) for q, k, v in fields.get("drawn", ()))
        return cls(**values)


def _within(field: str, value: Any, low: int, high: int) -> None:
    if not is_integer(value, low, high):
        nearest = nearest_integer(value, low, high)
        raise ConfigError(
            field, value, f"must be an integer from {low} to {high}",
            works=f"Nearest that works: {nearest}", repairs=[{field: nearest}],
        )  # fmt: skip


def pattern(spec: MaskSpec, *, device: torch.device | str = "cpu") -> Tensor:
    """The part that is the same for every batch item: boolean (Tq, Tk)."""
    query = torch.arange(spec.time_q, device=device)[:, None] + spec.offset
    key = torch.arange(spec.time_k, device=device)
    keep = torch.ones(spec.time_q, spec.time_k, dtype=torch.bool, device=device)
    if spec.causal or spec.prefix:
        keep = masks.causal(spec.time_q, spec.time_k, align=spec.align, device=device)
    if spec.prefix:
        keep = keep | (key < spec.prefix)
    if spec.window:
        keep = keep & ((query - key).abs() < spec.window)
    if spec.blocks:
        keep = keep & (_block(query, spec.blocks) == _block(key, spec.blocks))
    if spec.drawn:
        keep = keep.clone()
        queries, keys, values = zip(*spec.drawn, strict=True)
        keep[list(queries), list(keys)] = torch.tensor(values, device=device)
    return keep


def _block(position: Tensor, blocks: tuple[int, ...]) -> Tensor:
    """Which block a position is in; -1 before the first key."""
    if len(blocks) == 1:
        return position.div(blocks[0], rounding_mode="floor").clamp(min=-1)
    ends = torch.tensor(blocks[:-1], device=position.device).cumsum(0)
    found = torch.bucketize(position, ends, right=True)
    return found.masked_fill(position < 0, -1)


def padding(spec: MaskSpec, *, device: torch.device | str = "cpu") -> Tensor | None:
    """The part of each batch item: boolean (batch, 1, 1, Tk), False where a key is padding."""
    if not spec.lengths:
        return None
    if spec.side == "right":
        return masks.padding(spec.lengths, spec.time_k, device=device)
    gaps = [spec.time_k - length for length in spec.lengths]
    return masks.flip(masks.padding(gaps, spec.time_k, device=device))


def keep(spec: MaskSpec, *, device: torch.device | str = "cpu") -> Tensor:
    """The whole mask, boolean: (Tq, Tk), or with padding (batch, 1, Tq, Tk)."""
    joined = masks.combine(pattern(spec, device=device), padding(spec, device=device))
    assert joined is not None
    return joined


def blind_rows(mask: Tensor) -> list[tuple[int, int]]:
    """(batch item, query) of the rows of a boolean mask that see no key.

    Args:
        mask: (Tq, Tk), or (batch, 1, Tq, Tk).
    """
    rows = ~mask.any(-1)
    rows = rows[None] if rows.dim() == 1 else rows[:, 0]
    return [(int(item), int(query)) for item, query in rows.nonzero().tolist()]


def is_causal(spec: MaskSpec) -> bool:
    """Whether torch's `is_causal=True` alone means this pattern: upper-left, nothing else."""
    return bool(torch.equal(pattern(spec), masks.causal(spec.time_q, spec.time_k)))


def program(spec: MaskSpec) -> str:
    """Python that builds `keep`, and needs torch alone."""
    moved = f" + {spec.offset}" if spec.offset > 0 else f" - {-spec.offset}" if spec.offset else ""
    lines = [
        "import torch",
        "",
        f"query = torch.arange({spec.time_q})[:, None]{moved}",
        f"key = torch.arange({spec.time_k})",
        f"keep = torch.ones({spec.time_q}, {spec.time_k}, dtype=torch.bool)",
    ]
    if spec.prefix:
        lines.append(f"keep &= (key <= query) | (key < {spec.prefix})  # causal after a prefix")
    elif spec.causal:
        lines.append("keep &= key <= query  # causal")
    if spec.window:
        lines.append(f"keep &= (query - key).abs() < {spec.window}  # sliding window")
    lines += _block_lines(spec.blocks)
    lines += _drawn_lines(spec.drawn)
    if spec.lengths:
        test = "key < lengths" if spec.side == "right" else f"key >= {spec.time_k} - lengths"
        lines += [
            f"lengths = torch.tensor({list(spec.lengths)})[:, None, None, None]",
            f"keep = keep & ({test})  # padding: (batch, 1, Tq, Tk)",
        ]
    return "\n".join(lines)


def _block_lines(blocks: tuple[int, ...]) -> list[str]:
    if not blocks:
        return []
    if len(blocks) == 1:
        return [f"keep &= query // {blocks[0]} == key // {blocks[0]}  # blocks"]
    return [
        f"ends = torch.tensor({list(blocks[:-1])}).cumsum(0)",
        "block = lambda position: torch.bucketize(position, ends, right=True)"
        ".masked_fill(position < 0, -1)",
        "keep &= block(query) == block(key)  # blocks",
    ]


def _drawn_lines(drawn: Iterable[Cell]) -> list[str]:
    lines = []
    for value in (True, False):
        cells = [(query, key) for query, key, visible in drawn if visible is value]
        if cells:
            queries, keys = (list(axis) for axis in zip(*cells, strict=True))
            lines.append(f"keep[{queries}, {keys}] = {value}  # drawn")
    return lines
