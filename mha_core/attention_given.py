"""Attention weights that somebody else's model returned, as layers of (B, h, Tq, Tk)."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mha_core.errors import ConfigError, human_bytes

SHAPES = (
    "Accepted: one layer as (h, Tq, Tk) or (B, h, Tq, Tk), several as a list of these "
    "or stacked as (L, B, h, Tq, Tk)"
)
LIMIT = 512 * 2**20  # bytes, of a file and of its maps in float32
_MOST_LAYERS = 1024
# Where several entries lie side by side, one of these names says which holds the weights.
_NAMES = ("attentions", "weights")


@dataclass(frozen=True)
class GivenAttention:
    """Weights of the user's own.

    Attributes:
        layers: one float32 CPU tensor (B, h, Tq, Tk) a layer.
        names: of the layers, as the file has them, else "layer 0", "layer 1" and so on.
        dtypes: of the layers as they came, say "bfloat16".
        source: the file's name, or what the weights are called.
    """

    layers: tuple[Tensor, ...]
    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    source: str


def given_attention(
    attentions: Any, *, source: str = "attentions", limit: int = LIMIT
) -> GivenAttention:
    """All layers of what `output_attentions=True` returns, or of arrays like it.

    Args:
        attentions: a tensor or array (h, Tq, Tk), (B, h, Tq, Tk) or (L, B, h, Tq, Tk); a
            sequence of the first two, one a layer; or a mapping of names to these, whose layers
            come in the natural order of the names unless one is called "attentions" or
            "weights", which is then taken alone. Three axes are always (h, Tq, Tk).
        source: what the weights are called in errors.
        limit: the most bytes that all maps may take in float32.

    Raises:
        ConfigError: no weights, something that is not an array of floating-point numbers, axes
            other than these, or over the limit. Values are not looked at: see `check_rows`.
    """
    arrays = layer_arrays(attentions, source=source)
    needed = sum(4 * int(np.prod(array.shape, dtype=object)) for _, array in arrays)
    if needed > limit:
        raise ConfigError(
            source,
            human_bytes(needed),
            f"its maps take {human_bytes(needed)} in float32, over the limit of "
            f"{human_bytes(limit)}",
            works="Keep fewer layers, batch items or positions",
        )
    return GivenAttention(
        layers=tuple(weights_of(array) for _, array in arrays),
        names=tuple(name for name, _ in arrays),
        dtypes=tuple(dtype_name(array) for _, array in arrays),
        source=source,
    )


def layer_arrays(attentions: Any, *, source: str = "attentions") -> list[tuple[str, Any]]:
    """(name, tensor or array) of every layer, checked in kind and shape, not yet converted.

    Raises:
        ConfigError: as `given_attention`, but for the limit.
    """
    if isinstance(attentions, GivenAttention):
        return list(zip(attentions.names, attentions.layers, strict=True))
    if hasattr(attentions, "attentions"):  # a model's whole output
        attentions = attentions.attentions
    if not isinstance(attentions, Mapping):
        return _layers(attentions, source)
    for name in _NAMES:
        if name in attentions:
            return _layers(attentions[name], source)
    entries = sorted(((str(name), part) for name, part in attentions.items()), key=_natural)
    several = [name for name, _ in entries if name.endswith("_attentions")]
    if several:
        raise ConfigError(
            source,
            several,
            "holds attention of several kinds",
            works=f"Give one of them, say outputs.{several[0]}",
        )
    if len(entries) == 1:  # under one name may be all the layers, stacked
        name, part = entries[0]
        found = _layers(part, source)
        return [(name, found[0][1])] if len(found) == 1 else found
    return _named(entries, source)


def _layers(attentions: Any, source: str) -> list[tuple[str, Any]]:
    if attentions is None:
        raise no_weights(source, None)
    if not isinstance(attentions, (list, tuple)):
        whole = _array(attentions, source)
        if whole.ndim != 5:
            return [("layer 0", _checked(whole, source))]
        attentions = [] if len(whole) > _MOST_LAYERS else list(whole)
        if not attentions:
            raise ConfigError(
                source, tuple(whole.shape), f"must have from 1 to {_MOST_LAYERS} layers"
            )
    return _named([(f"layer {place}", part) for place, part in enumerate(attentions)], source)


def _named(entries: list[tuple[str, Any]], source: str) -> list[tuple[str, Any]]:
    if not entries:
        raise no_weights(source, ())
    if len(entries) > _MOST_LAYERS:
        raise ConfigError(
            source, f"{len(entries)} arrays", f"must hold at most {_MOST_LAYERS} layers"
        )
    for name, part in entries:
        if part is None:
            raise no_weights(f"{source}, {name}", None)
    return [(name, _checked(_array(part, name), name)) for name, part in entries]


def no_weights(field: str, value: Any) -> ConfigError:
    """The refusal of an empty tuple, or of None, that tells how to get the weights."""
    return ConfigError(
        field,
        value,
        "holds no weights, the model returned none: the default attention of transformers, sdpa, "
        "never has them at hand",
        works=(
            'Load the model with attn_implementation="eager", or call '
            'model.set_attn_implementation("eager"), and pass output_attentions=True'
        ),
    )


def weights_of(array: Any) -> Tensor:
    """A checked layer, (h, Tq, Tk) or (B, h, Tq, Tk) -> float32 (B, h, Tq, Tk) on the CPU."""
    if isinstance(array, Tensor):
        weights = array.detach().to("cpu", torch.float32)
    elif dtype_name(array) == "bfloat16":
        bits = np.array(array, order="C").view(np.int16)
        weights = torch.from_numpy(bits).view(torch.bfloat16).float()
    else:
        with np.errstate(over="ignore"):  # told as infinite by who looks at the values
            weights = torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
    return (weights if weights.dim() == 4 else weights[None]).contiguous()


def dtype_name(array: Any) -> str:
    """ "float16" and the like; "bfloat16" also for the raw pairs of bytes NumPy makes of it."""
    if isinstance(array, Tensor):
        return str(array.dtype).removeprefix("torch.")
    return "bfloat16" if array.dtype.str[1:] == "V2" else str(array.dtype.newbyteorder("="))


def _array(part: Any, name: str) -> Any:
    """A dense tensor or array of floating-point numbers."""
    if isinstance(part, (list, tuple)):
        inner = {type(one).__name__ for one in part}
        raise ConfigError(
            name,
            f"{type(part).__name__} of {len(part)} {', '.join(sorted(inner))}",
            "must be one array: a list may hold arrays, not lists",
            works=(
                "Of what generate() returns, a tuple of layers for each new token, give one: "
                "outputs.attentions[0]"
            ),
        )
    if isinstance(part, Tensor):
        sparse = part.layout is not torch.strided or part.is_nested
        if sparse or part.is_meta or part.is_quantized:
            raise ConfigError(name, str(part.layout), "must be a dense tensor that holds numbers")
        if not part.is_floating_point():
            raise _not_floating(name, part)
        return part
    if not hasattr(part, "__array__"):
        raise ConfigError(name, type(part).__name__, "must be an array", works=SHAPES)
    array = np.asarray(part)
    if array.dtype.kind != "f" and dtype_name(array) != "bfloat16":
        raise _not_floating(name, array)
    return array


def _not_floating(name: str, array: Any) -> ConfigError:
    return ConfigError(
        name,
        dtype_name(array),
        f"must hold floating-point numbers; its shape is {tuple(array.shape)}",
        works='Leave it out, or call the weights "attentions"',
    )


def _checked(array: Any, name: str) -> Any:
    """The array, if its axes are those of a layer's maps and none is empty."""
    shape = tuple(array.shape)
    if len(shape) == 2:
        raise ConfigError(
            name,
            shape,
            "has 2 axes: a map of one head, or of the heads' mean, has no axis for the heads",
            works=f"{SHAPES}. From nn.MultiheadAttention: average_attn_weights=False",
        )
    if len(shape) not in (3, 4):
        raise ConfigError(name, shape, f"has {len(shape)} axes", works=SHAPES)
    if 0 in shape:
        raise ConfigError(name, shape, "has an empty axis", works=SHAPES)
    return array


def _natural(entry: tuple[str, Any]) -> list[tuple[int, int, str]]:
    """ "layer 2" before "layer 10": digits compare as numbers, of any length."""
    parts = re.findall(r"[0-9]+|[^0-9]+", entry[0])
    return [_part(part) for part in parts]


def _part(part: str) -> tuple[int, int, str]:
    if not part[0].isascii() or not part[0].isdigit():
        return (1, 0, part)
    digits = part.lstrip("0")
    return (0, len(digits), digits)


def choose(field: str, index: Any, count: int) -> int:
    """Which of `count` layers, say, or batch items; None is the only one.

    Raises:
        ConfigError: no such one, or None where there are several.
    """
    last = count - 1
    if index is None and last == 0:
        return 0
    near = last
    if not isinstance(index, bool) and hasattr(index, "__index__"):
        place = operator.index(index)
        if 0 <= place <= last:
            return place
        near = min(max(place, 0), last)
    raise ConfigError(
        field,
        index,
        f"must be from 0 to {last}",
        works=f"Nearest that works: {near}",
        repairs=[{field: near}],
    )
