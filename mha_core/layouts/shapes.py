"""Which shapes the tensors of a layer may have; what does not fit is refused with both shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from mha_core.devices import DTYPES
from mha_core.errors import ConfigError
from mha_core.layouts.listing import dtype_name, short

GROUPED = (
    "is grouped-query attention, with fewer key and value heads than query heads; here every "
    "head has a key and a value of its own"
)


def expect(name: str, tensor: Tensor, shape: tuple[int, ...], because: str = "") -> None:
    """Refuses any other shape, naming both."""
    got = tuple(tensor.shape)
    if got != shape:
        raise ConfigError(
            short(name), got, f"must be {shape}{because}", works=f"Nearest that works: {shape}"
        )


def check_axes(state: Mapping[str, Tensor], names: Sequence[str]) -> None:
    for name in names:
        shape = tuple(state[name].shape)
        if len(shape) != 2 or 0 in shape:
            raise ConfigError(short(name), shape, "must have 2 axes, of at least 1 each")


def check_dtypes(state: Mapping[str, Tensor], names: Sequence[str]) -> None:
    """Refuses integers and other types without a rule here, and a mixture."""
    first = dtype_name(state[names[0]])
    for name in names:
        dtype = dtype_name(state[name])
        if dtype not in DTYPES:
            raise ConfigError(
                short(name), dtype, "is not a floating-point type offered here",
                works=f"These work: {', '.join(DTYPES)}",
            )  # fmt: skip
        if dtype != first:
            raise ConfigError(
                short(name), dtype, f"must be the dtype of {short(names[0])}, {first}",
                works=f"Nearest that works: {first}",
            )  # fmt: skip


def fused_width(name: str, fused: Tensor, output: Tensor, *, conv1d: bool, grouped: bool) -> int:
    """d_model of one matrix for W_q, W_k and W_v.

    Args:
        name: of the matrix, for the error.
        fused: (3 d_model, d_model); (d_model, 3 d_model) where `conv1d`.
        output: W_o, whose width tells what was meant where the other does not fit.
        conv1d: stored (in, out).
        grouped: whether models with this name may have grouped queries.

    Raises:
        ConfigError: another shape, naming both; one of grouped-query attention by that name.
    """
    rows, d_model = reversed(fused.shape) if conv1d else fused.shape
    if rows == 3 * d_model:
        return d_model
    square = output.shape[0] if output.shape[0] == output.shape[1] else d_model
    # h d_k rows of queries, then kv d_k of keys and as many of values; kv divides h.
    keys, odd = divmod(rows - d_model, 2)
    if grouped and square == d_model and not odd and 0 < keys < d_model and d_model % keys == 0:
        raise ConfigError(
            short(name),
            tuple(fused.shape),
            f"{GROUPED}: {d_model} rows of queries, {keys} each of keys and values",
            works=f"Nearest that works: {_fused(d_model, conv1d)}",
        )
    expect(name, fused, _fused(square, conv1d), f" for d_model={square}")
    return square


def _fused(d_model: int, conv1d: bool) -> tuple[int, int]:
    return (d_model, 3 * d_model) if conv1d else (3 * d_model, d_model)


def separate_width(state: Mapping[str, Tensor], names: Sequence[str]) -> int:
    """d_model of three matrices W_q, W_k and W_v, each (d_model, d_model).

    Raises:
        ConfigError: grouped queries, other widths of key and value, or another shape.
    """
    query, key, value = names
    (rows, d_model), keys, values = (tuple(state[name].shape) for name in names)
    shapes = f"{short(query)} {(rows, d_model)}, {short(value)} {values}"
    if keys[1] != d_model or values[1] != d_model:
        wrong = key if keys[1] != d_model else value
        raise ConfigError(
            short(wrong),
            tuple(state[wrong].shape),
            f"must take the width of {short(query)}, {d_model}: self-attention has one width, "
            "and kdim and vdim other than it are not offered",
            works=f"Nearest that works: {(d_model, d_model)}",
        )
    if keys == values and keys[0] < rows and rows % keys[0] == 0:
        raise ConfigError(
            short(key),
            keys,
            f"{GROUPED}: beside {shapes}",
            works=f"Nearest that works: {(rows, d_model)}",
        )
    for name in names:
        expect(name, state[name], (d_model, d_model), f" for d_model={d_model}")
    return d_model
