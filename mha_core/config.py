"""What to run: one frozen record of every choice, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Real
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
# Far beyond what any memory holds, and small enough that a refusal is quick to write.
MAX_SIZE = 2**31 - 1
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


def _is_integer(value: Any, low: int, high: int) -> bool:
    """True is an int in Python, and not here."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False


def _nearest_integer(value: Any, low: int, high: int) -> int:
    """The integer from `low` to `high` nearest to `value`; `low` for what is no number."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not value > low:
        return low
    return high if value >= high else round(float(value))


def check_size(field: str, value: Any, fits: Callable[[int], int] = int) -> None:
    """Refuses anything but an integer from 1 to MAX_SIZE.

    `fits` turns the nearest such integer into the nearest that the other fields allow too.
    """
    if _is_integer(value, 1, MAX_SIZE):
        return
    if isinstance(value, bool) or not isinstance(value, int):
        rule = f"must be an integer, not {type(value).__name__}"
    else:
        rule = "must be at least 1" if value < 1 else f"must be at most {MAX_SIZE}"
    nearest = fits(_nearest_integer(value, 1, MAX_SIZE))
    raise ConfigError(
        field, value, rule, works=f"Nearest that works: {nearest}", repairs=[{field: nearest}]
    )


def check_widths(d_model: Any, heads: Any) -> None:
    """Refuses d_model and heads unless both are sizes and heads divides d_model."""

    def multiple(number: int) -> int:
        return _multiples(number, heads)[0] if _is_integer(heads, 1, MAX_SIZE) else number

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
    if not _is_integer(value, 0, MAX_SEED):
        nearest = _nearest_integer(value, 0, MAX_SEED)
        raise ConfigError(
            "seed",
            value,
            "must be an integer from 0 to 2**63 - 1",
            works=f"Nearest that works: {nearest}",
            repairs=[{"seed": nearest}],
        )


def check_dtype(value: Any) -> None:
    if not isinstance(value, str) or value not in DTYPES:
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
