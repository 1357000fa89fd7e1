"""What to run: one frozen record of every choice, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mha_core.devices import DTYPES, check_device, check_dtype
from mha_core.errors import ConfigError
from mha_core.sizes import check_size, check_widths, is_integer, nearest_integer

MAX_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class MHAConfig:
    """One multi-head attention forward, described completely.

    The defaults differ pairwise, so that no transpose can hide behind two equal axes.

    Args:
        batch: sequences processed together.
        time: positions in each sequence.
        d_model: width of the input and of the output.
        heads: number of heads h; divides d_model.
        causal: each query sees its own position and those before it.
        dropout: probability of dropping a weight after softmax, in [0, 1).
        bias: whether W_q, W_k, W_v and W_o have a bias.
        dtype: "float32", "float64", "bfloat16" or "float16".
        device: "cpu", "cuda" or "mps", where torch has it.
        seed: of the weights, the input and the dropout, each with a stream of its own.
        scale: factor on the scores; None is 1/sqrt(d_k) (Vaswani et al. 2017, section 3.2.1).
        fill: what a masked score becomes: -inf replaces it, a finite value is added to it,
            as textbook code adds -1e9.

    Raises:
        ConfigError: a ValueError naming the field, the value, the rule and the nearest
            values that work.
    """

    batch: int = 2
    time: int = 6
    d_model: int = 32
    heads: int = 4
    causal: bool = False
    dropout: float = 0.0
    bias: bool = True
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 0
    scale: float | None = None
    fill: float = -math.inf

    def __post_init__(self) -> None:
        check_size("batch", self.batch)
        check_size("time", self.time)
        check_widths(self.d_model, self.heads)
        for field in ("causal", "bias"):
            check_flag(field, getattr(self, field))
        check_dropout(self.dropout)
        _check_seed(self.seed)
        check_dtype(self.dtype)
        check_device(self.device, self.dtype)
        check_scale(self.scale)
        check_fill(self.fill, self.torch_dtype)

    @property
    def d_k(self) -> int:
        """Width of one head: d_model / heads."""
        return self.d_model // self.heads

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON can hold them: an infinite fill is the string "-inf"."""
        fields = asdict(self)
        if math.isinf(self.fill):
            fields["fill"] = "-inf"
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> MHAConfig:
        """The inverse of `to_dict`. Unknown fields are refused."""
        known = cls.__dataclass_fields__
        for name in fields:
            if name not in known:
                raise ConfigError(name, fields[name], "no such field", works=", ".join(known))
        values = dict(fields)
        if values.get("fill") == "-inf":
            values["fill"] = -math.inf
        return cls(**values)


def _is_finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False


def check_flag(field: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(
            field,
            value,
            f"must be True or False, not {type(value).__name__}",
            works="Nearest that works: False",
            repairs=[{field: False}],
        )


def check_dropout(value: Any) -> None:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not 0.0 <= value < 1.0:
        nearest = 0.9 if real and value >= 1.0 else 0.0
        raise ConfigError(
            "dropout",
            value,
            "must be a probability, at least 0 and below 1",
            works=f"Nearest that works: {nearest}",
            repairs=[{"dropout": nearest}],
        )


def _check_seed(value: Any) -> None:
    if not is_integer(value, 0, MAX_SEED):
        nearest = nearest_integer(value, 0, MAX_SEED)
        raise ConfigError(
            "seed",
            value,
            "must be an integer from 0 to 2**63 - 1",
            works=f"Nearest that works: {nearest}",
            repairs=[{"seed": nearest}],
        )


def check_scale(value: Any) -> None:
    if value is not None and not _is_finite(value):
        raise ConfigError(
            "scale",
            value,
            "must be a finite number, or None for 1/sqrt(d_k)",
            works="Nearest that works: None",
            repairs=[{"scale": None}],
        )


def check_fill(value: Any, dtype: torch.dtype) -> None:
    """Refuses what is no fill, and what torch would refuse to write into a tensor of `dtype`."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not value < 0:
        raise ConfigError(
            "fill",
            value,
            "must be a negative number or -inf",
            works="Nearest that works: -inf",
            repairs=[{"fill": -math.inf}],
        )
    lowest = torch.finfo(dtype).min
    if value != -math.inf and value < lowest:
        raise ConfigError(
            "fill",
            value,
            f"does not fit {str(dtype).removeprefix('torch.')}, whose lowest value is {lowest:g}",
            works=f"Nearest that works: -inf or {lowest:g}",
            repairs=[{"fill": -math.inf}, {"fill": lowest}],
        )
