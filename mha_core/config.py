"""What to run: one frozen record of every choice, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mha_core.errors import ConfigError

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
DEVICES = ("cpu", "cuda", "mps")
SIZES = ("batch", "time", "d_model", "heads")


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
        for field in SIZES:
            check_size(field, getattr(self, field))
        check_heads(self.d_model, self.heads)
        for field in ("causal", "bias"):
            check_flag(field, getattr(self, field))
        check_dropout(self.dropout)
        _check_seed(self.seed)
        check_dtype(self.dtype)
        check_device(self.device, self.dtype)
        _check_scale(self.scale)
        _check_fill(self.fill, self.dtype)

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


def check_size(field: str, value: Any) -> None:
    """Refuses anything but an integer of at least 1. True is an int in Python, and refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        repairs = []
        if isinstance(value, float) and math.isfinite(value):
            repairs = [{field: max(1, round(value))}]
        raise ConfigError(
            field,
            value,
            f"must be an integer, not {type(value).__name__}",
            works=f"Nearest that works: {repairs[0][field] if repairs else 1}",
            repairs=repairs or [{field: 1}],
        )
    if value < 1:
        raise ConfigError(
            field, value, "must be at least 1", works="Nearest that works: 1", repairs=[{field: 1}]
        )


def divisors(number: int) -> list[int]:
    """Every head count that divides `number`, ascending."""
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return sorted({*small, *(number // i for i in small)})


def check_heads(d_model: int, heads: int) -> None:
    """Refuses a d_model that heads does not divide, naming the nearest of both that work."""
    if d_model % heads == 0:
        return
    below, above = d_model - d_model % heads, d_model - d_model % heads + heads
    widths = sorted((w for w in (below, above) if w > 0), key=lambda w: abs(w - d_model))
    counts = divisors(d_model)
    nearest = sorted(counts, key=lambda count: (abs(count - heads), count))
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
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ConfigError(
            "seed",
            value,
            "must be an integer from 0 to 2**63 - 1",
            works="Nearest that works: 0",
            repairs=[{"seed": 0}],
        )


def check_dtype(value: Any) -> None:
    if value not in DTYPES:
        raise ConfigError(
            "dtype",
            value,
            "is not a floating-point type offered here",
            works=f"These work: {', '.join(DTYPES)}",
            repairs=[{"dtype": "float32"}],
        )


def missing_device(name: str) -> str | None:
    """Why torch cannot run on device `name` here, or None where it can."""
    if name == "cpu":
        return None
    if name == "cuda":
        if not torch.backends.cuda.is_built():
            return "this torch was built without CUDA"
        return None if torch.cuda.is_available() else "torch finds no CUDA device"
    if name == "mps":
        if not torch.backends.mps.is_built():
            return "this torch was built without MPS"
        return None if torch.backends.mps.is_available() else "torch finds no MPS device"
    return "torch has no such device here"


def available_devices() -> list[str]:
    """The devices torch can run on now; always has "cpu"."""
    return [name for name in DEVICES if missing_device(name) is None]


def check_device(device: Any, dtype: str) -> None:
    reason = missing_device(device) if isinstance(device, str) else "must be the name of a device"
    has = available_devices()
    if reason is not None:
        raise ConfigError(
            "device",
            device,
            reason,
            works=f"torch here has: {', '.join(has)}",
            repairs=[{"device": name} for name in has],
        )
    if device == "mps" and dtype == "float64":
        raise ConfigError(
            "dtype",
            dtype,
            "MPS has no float64",
            works="Nearest that works: float32",
            repairs=[{"dtype": "float32"}, {"device": "cpu"}],
        )


def _check_scale(value: Any) -> None:
    if value is None:
        return
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not math.isfinite(value):
        raise ConfigError(
            "scale",
            value,
            "must be a finite number, or None for 1/sqrt(d_k)",
            works="Nearest that works: None",
            repairs=[{"scale": None}],
        )


def _check_fill(value: Any, dtype: str) -> None:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or math.isnan(value) or value > 0:
        raise ConfigError(
            "fill",
            value,
            "must be a negative number or -inf",
            works="Nearest that works: -inf",
            repairs=[{"fill": -math.inf}],
        )
    lowest = torch.finfo(DTYPES[dtype]).min
    # torch itself refuses to fill a float16 tensor with -1e9; say why before it does.
    if not math.isinf(value) and value < lowest:
        raise ConfigError(
            "fill",
            value,
            f"does not fit {dtype}, whose lowest value is {lowest:g}",
            works=f"Nearest that works: -inf or {lowest:g}",
            repairs=[{"fill": -math.inf}, {"fill": lowest}],
        )
