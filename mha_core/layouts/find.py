"""Attention layers in a file: found by the names of their tensors, checked by their shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.layouts.listing import dtype_name, names_and_shapes, short
from mha_core.layouts.notes import notes, questions
from mha_core.layouts.records import Found, Survey
from mha_core.layouts.registry import LAYOUTS, OUTPUTS, Layout
from mha_core.layouts.shapes import check_axes, check_dtypes, expect, fused_width, separate_width


def find_layers(state: Mapping[str, Tensor]) -> list[Found]:
    """The layers that can be built, in natural order of their names ("h.2" before "h.10").

    Raises:
        ConfigError: there is none. The first layer that looks like one says what is wrong with
            it; else the names and shapes found are listed, and those expected.
    """
    both = survey(state)
    if both.found:
        return list(both.found)
    if both.refused:
        raise both.refused[0]
    raise ConfigError(
        "weights",
        names_and_shapes(state),
        "have no name of a known attention layout",
        works=f"Expected one of: {', '.join(dict.fromkeys(map(_expected, LAYOUTS.values())))}",
    )


def survey(state: Mapping[str, Tensor]) -> Survey:
    """As `find_layers`, with the refusals of the layers that cannot be built beside the rest."""
    found: list[Found] = []
    refused: list[ConfigError] = []
    ordered = sorted(state)
    for name in sorted(state, key=_natural):
        first: ConfigError | None = None
        for prefix, layouts in _candidates(name):
            try:
                found.append(_examine(state, ordered, prefix, layouts))
                break
            except ConfigError as error:
                first = first or error
        else:
            if first is not None:
                refused.append(first)
    return Survey(tuple(found), tuple(refused))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Numbers by value, 18 digits at most at a time: Python refuses to read very long ones."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(0, int(part), "") if place % 2 else (1, 0, part) for place, part in enumerate(parts)]


def _by_anchor() -> dict[str, list[Layout]]:
    """Longest first: BERT's "self.query.weight" also ends as plain "query.weight" does."""
    anchors = sorted({layout.anchor for layout in LAYOUTS.values()}, key=len, reverse=True)
    return {
        anchor: [layout for layout in LAYOUTS.values() if layout.anchor == anchor]
        for anchor in anchors
    }


_ANCHORS = _by_anchor()


def _candidates(name: str) -> Iterator[tuple[str, list[Layout]]]:
    for anchor, layouts in _ANCHORS.items():
        if name == anchor or name.endswith(f".{anchor}"):
            yield name.removesuffix(anchor), layouts


def _expected(layout: Layout) -> str:
    shape = "(d_model, d_model)"
    if layout.fused:
        conv1d = layout.orientations == ("conv1d",)
        shape = "(d_model, 3 d_model)" if conv1d else "(3 d_model, d_model)"
    return f"{layout.anchor} {shape}"


def _examine(
    state: Mapping[str, Tensor], ordered: Sequence[str], prefix: str, layouts: Sequence[Layout]
) -> Found:
    """The layer with this prefix; `layouts` share their first name. Refuses what does not fit."""
    inputs = [prefix + name for name in layouts[0].weights[:-1]]
    for name in inputs:
        if name not in state:
            raise ConfigError(
                short(name), None, f"is missing beside {short(inputs[0])}",
                works=f"Expected: {', '.join(layouts[0].weights[1:])}",
            )  # fmt: skip
    ending = _output(state, prefix, layouts)
    weights = (*inputs, prefix + ending)
    check_axes(state, weights)
    layout = _pick(layouts, ending, state[inputs[0]])
    _refuse_extra_rows(state, prefix, layout)
    conv1d = layout.orientations == ("conv1d",)
    if layout.fused:
        d_model = fused_width(
            inputs[0], state[inputs[0]], state[weights[-1]],
            conv1d=conv1d, grouped=len(layout.orders) > 1,
        )  # fmt: skip
    else:
        d_model = separate_width(state, inputs)
    expect(weights[-1], state[weights[-1]], (d_model, d_model), f" for d_model={d_model}")
    biases = _biases(state, prefix, layout, ending, d_model)
    present = [name for name in biases if name is not None]
    check_dtypes(state, (*weights, *present))
    return Found(
        prefix, layout.name, d_model, dtype_name(state[inputs[0]]), bool(present), weights, biases,
        asks=tuple(questions(layout, d_model)),
        notes=tuple(notes(ordered, prefix, layout, weights, biases)),
    )  # fmt: skip


def _output(state: Mapping[str, Tensor], prefix: str, layouts: Sequence[Layout]) -> str:
    """The name of W_o after the prefix: the layouts' own before those of others."""
    own = [layout.weights[-1] for layout in layouts]
    # A longer name of W_q leaves a shorter prefix, and what stands there may be another layer's.
    others = OUTPUTS if layouts[0].anchor.count(".") == 1 else ()
    for ending in (*own, *others):
        if prefix + ending in state:
            return ending
    raise ConfigError(
        short(prefix + own[0]),
        None,
        f"is missing: {short(prefix + layouts[0].anchor)} has no output projection beside it",
        works=f"Expected one of: {', '.join(dict.fromkeys((*own, *others)))}",
    )


def _pick(layouts: Sequence[Layout], ending: str, first: Tensor) -> Layout:
    """The layout with this output, and where one name has two orientations, the longer axis's."""
    if len({layout.orientations for layout in layouts}) > 1:
        wanted = "linear" if first.shape[0] > first.shape[1] else "conv1d"
        layouts = [layout for layout in layouts if layout.orientations == (wanted,)]
    exact = [layout for layout in layouts if layout.weights[-1] == ending]
    return (exact or list(layouts))[0]


def _refuse_extra_rows(state: Mapping[str, Tensor], prefix: str, layout: Layout) -> None:
    for name in ("bias_k", "bias_v"):
        if layout.name.startswith("torch") and prefix + name in state:
            raise ConfigError(
                short(prefix + name),
                tuple(state[prefix + name].shape),
                "adds one key and value that no position has (add_bias_kv), which is not offered",
                works="Nearest that works: a layer with add_bias_kv=False",
            )


def _biases(
    state: Mapping[str, Tensor], prefix: str, layout: Layout, ending: str, d_model: int
) -> tuple[str | None, ...]:
    last = layout.biases[-1]
    if ending.endswith(".weight"):  # that of the W_o that is there
        last = ending.removesuffix("weight") + "bias"
    names = [prefix + name for name in (*layout.biases[:-1], last)]
    for place, name in enumerate(names):
        if name in state:
            three_in_one = len(names) == 2 and place == 0
            width = 3 * d_model if three_in_one else d_model
            expect(name, state[name], (width,), f" for d_model={d_model}")
    return tuple(name if name in state else None for name in names)
