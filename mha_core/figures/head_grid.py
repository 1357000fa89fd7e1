"""All heads of one layer at a glance, for notebooks: `head_grid(outputs.attentions, layer=0)`."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from mha_core.attention_given import GivenAttention, choose, dtype_name, layer_arrays, weights_of
from mha_core.attention_maps import effective_keys, given_maps, squared
from mha_core.attention_rows import RowCheck, check_rows
from mha_core.attention_tokens import check_tokens
from mha_core.errors import ConfigError
from mha_core.figures.focus import cell_labels, map_traces
from mha_core.figures.head_grid_layout import CAPTION, Axis, grid_layout
from mha_core.figures.text import label, plural
from mha_core.maps import HeadMaps, Pooled, Pooling, Scaled, pool, scaled
from mha_core.palette import Mode, Palette, palette

# Numbers in all maps together: as float32 in base64 they take 1.4 MB.
_MOST_NUMBERS = 260_000


def head_grid(
    attentions: Any,
    *,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    layer: int | None = None,
    item: int = 0,
    scale: str = "weight",
    how: Pooling = "max",
    columns: int | None = None,
    mode: Mode = "light",
    max_side: int = 96,
) -> go.Figure:
    """Small multiples of the weights of every head of one layer, on one scale.

    Queries run down from the top, keys to the right. Cells whose weight is 0 in every head, or
    NaN, are drawn as masked. Rows that do not sum to 1 are told in the figure's heading.

    Args:
        attentions: what a model of transformers returns as `outputs.attentions`, or `outputs`
            itself; one tensor or array (B, h, Tq, Tk) or (h, Tq, Tk), of any floating dtype and
            device; or a GivenAttention.
        tokens: one a position, labelling the queries and, where there are as many, the keys.
        key_tokens: one a key where these are not the queries' (cross-attention, a cache, or the
            columns that `add_bias_kv` and `add_zero_attn` append).
        layer: counted from 0; of several layers one must be named.
        item: the batch item.
        scale: one of `maps.SCALES`.
        how: "max" or "mean", how cells are pooled where there are more than `max_side`.
        columns: maps in a row; chosen from the number of heads when None.
        mode: "light" or "dark".
        max_side: the most cells along an axis; fewer where many heads would make the figure
            larger than 2 MB.

    Raises:
        ConfigError: no weights (and how to get them), values that are no weights, no such layer,
            batch item or scale, or tokens that are not one a position.
    """
    _positive("max_side", max_side)
    if columns is not None:
        _positive("columns", columns)
    maps, place, check = _one_layer(attentions, layer, item)
    queries, keys = maps.values.shape[-2:]
    if tokens is not None:
        check_tokens(tokens, maps.values, axis="query")
        key_tokens = tokens if key_tokens is None and queries == keys else key_tokens
    if key_tokens is not None:
        check_tokens(key_tokens, maps.values, axis="key")
    drawn = _drawn(maps, max_side, how, scale)
    colours = palette(mode)
    axes = (_axis(drawn.pooled, -2, queries, tokens), _axis(drawn.pooled, -1, keys, key_tokens))
    layout, names = grid_layout(
        axes,
        effective_keys(maps),
        masked=bool(np.isnan(drawn.scaled.values).any()),
        heading=_heading(place, maps, drawn.pooled, check, colours),
        columns=columns,
        colours=colours,
    )
    traces = _traces(
        drawn.scaled,
        pooled=drawn.pooled,
        beside=drawn.weights,
        names=names,
        scale=scale,
        side=layout["height"] - layout["margin"]["t"] - layout["margin"]["b"],
        colours=colours,
    )
    return go.Figure({"data": traces, "layout": layout})


@dataclass(frozen=True)
class _Drawn:
    """Maps small enough to send, cut to (h, rows, columns): on the scale, and as weights."""

    pooled: Pooled
    scaled: Scaled
    weights: NDArray[np.float32] | None


def _one_layer(attentions: Any, layer: int | None, item: int) -> tuple[HeadMaps, str, RowCheck]:
    """The maps asked for, what they are called, and what their rows sum to.

    The layer and the batch item are picked first: the others are not converted.
    """
    arrays = layer_arrays(attentions)
    at = choose("layer", layer, len(arrays))
    name, array = arrays[at]
    batch = array.shape[0] if array.ndim == 4 else 1
    item = choose("batch item", item, batch)
    weights = weights_of(array[item : item + 1] if array.ndim == 4 else array)
    maps = given_maps(weights)
    called = f"layer {at}" if name == f"layer {at}" else f"layer {at} ({name})"
    read = isinstance(attentions, GivenAttention)  # float32 by now, whatever it was
    dtype = attentions.dtypes[at] if read else dtype_name(array)
    given = GivenAttention((maps.values[None],), (called,), (dtype,), "attentions")
    place = f"batch item {item}" + (f" of {batch}" if batch > 1 else "")
    if len(arrays) > 1:
        place = f"{called} · {place}"
    return maps, place, check_rows(given, item=item)


def _drawn(maps: HeadMaps, max_side: int, how: Pooling, scale: str) -> _Drawn:
    heads, queries, keys = maps.values.shape
    relative = scale in ("× uniform", "log")
    numbers = heads * (1 + (maps.visible is not None) + relative)
    limit = max(1, min(max_side, math.isqrt(_MOST_NUMBERS // numbers)))
    # `pool` takes square maps; what is added here is masked there and cut off again.
    square = squared(maps)
    pooled, drawn = scaled(square, limit, how, scale)
    exact = pool(square, limit, how).values if relative else None
    rows, cells = -(-queries // pooled.factor), -(-keys // pooled.factor)
    return _Drawn(
        replace(pooled, values=pooled.values[:, :rows, :cells]),
        replace(drawn, values=np.ascontiguousarray(drawn.values[:, :rows, :cells])),
        None if exact is None else np.ascontiguousarray(exact[:, :rows, :cells]),
    )


def _axis(pooled: Pooled, axis: int, time: int, tokens: Sequence[str] | None) -> Axis:
    """What each row or column is called; where it pools several, their range and its ends."""
    along = replace(pooled, values=np.moveaxis(pooled.values[:1], axis, -1), time=time)
    names = cell_labels(along, tokens)
    if tokens is not None and pooled.factor > 1:
        names = [
            f"{name} ({label(held[0])} … {label(held[-1])})"
            for name, start in zip(names, range(0, time, pooled.factor), strict=True)
            if (held := tokens[start : start + pooled.factor])
        ]
    return Axis(names, time, written=pooled.factor == 1)


def _heading(
    place: str, maps: HeadMaps, pooled: Pooled, check: RowCheck, colours: Palette
) -> list[str]:
    """Lines of HTML: which maps, what the numbers are, and what is wrong."""
    heads, queries, keys = maps.values.shape
    first = f"{place} · {plural(heads, 'head')} · {queries:,} × {keys:,}"
    if pooled.factor > 1:
        first += f" · each cell the {pooled.how} of {pooled.factor} × {pooled.factor}"
    second = "beside each head its effective keys: the mean over the queries of exp(entropy)"
    if check.unseen:
        second += f" · {plural(check.unseen, 'row')} without a key"
    first = html.escape(first, quote=False)
    lines = [f'<span style="color:{colours.text}">{first}</span>', second]
    if check.off:
        off = f"{check.off:,} of {check.rows:,} rows do not sum to 1, by up to {check.largest:.2g}"
        lines.append(f'<span style="color:{colours.bad}">{off}</span>')
    return lines


def _traces(
    scaled: Scaled,
    *,
    pooled: Pooled,
    beside: NDArray[np.float32] | None,
    names: Sequence[tuple[str, str]],
    scale: str,
    side: float,
    colours: Palette,
) -> list[dict[str, Any]]:
    """A heatmap a head, and one for what is masked in it.

    Args:
        scaled: all heads.
        pooled: what they were scaled from.
        beside: the weights, where the scale shows something else.
        names: of each head's axes.
        scale: one of `maps.SCALES`.
        side: height of all maps together, in pixels.
        colours: of the ground.
    """
    weight = "weight" if pooled.factor == 1 else f"{pooled.how} weight"
    told = f"{weight} <b>%{{{'z' if beside is None else 'customdata'}:.4g}}</b>"
    if scale == "× uniform":
        told += "<br>× uniform %{z:.4g}"
    cells = max(pooled.values.shape[-2:])
    traces: list[dict[str, Any]] = []
    for head, values in enumerate(scaled.values):
        where = f"head {head}<br>query %{{y}} → key %{{x}}<br>"
        made = map_traces(
            values,
            colours,
            low=float(scaled.low[head]),
            high=float(scaled.high[head]),
            diverging=scaled.diverging,
            hover=f"{where}{told}<extra></extra>",
            beside=None if beside is None else beside[head],
            colorbar=_colorbar(scaled, scale, side, colours) if head == 0 else None,
            gap=1 if cells <= 24 else 0,
            axes=names[head],
        )
        if len(made) == 2:
            made[0]["hovertemplate"] = f"{where}no weight: masked<extra></extra>"
        traces += made
    return traces


def _colorbar(scaled: Scaled, scale: str, side: float, colours: Palette) -> dict[str, Any]:
    """One for all heads; where each has its own end, the bar says no number for it."""
    title = scaled.title + ("<br>(top 5 % clipped)" if scaled.clipped else "")
    bar: dict[str, Any] = {
        "title": {"text": title, "side": "right", "font": {"size": 12, "color": colours.muted}},
        "thickness": 12,
        "lenmode": "pixels",
        "len": min(260.0, side - CAPTION),
        "y": 1 - CAPTION / side,
        "yanchor": "top",
        "outlinewidth": 0,
        "tickfont": {"size": 11, "color": colours.text},
        "xpad": 12,
        "nticks": 5,
    }
    if scale == "per head":
        ends = [float(scaled.low[0]), float(scaled.high[0])]
        bar |= {"tickmode": "array", "tickvals": ends, "ticktext": ["0", "most"]}
    return bar


def _positive(field: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(field, value, "must be a whole number from 1", works="Nearest: 1")
