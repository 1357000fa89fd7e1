"""What a figure shows, before anything is drawn: one panel a tensor and batch item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mha_core.config import MHAConfig
from mha_core.export.selection import Job
from mha_core.head_stats import head_stats, keys_text
from mha_core.maps import HeadMaps, Pooled, Pooling, Scaled, head_maps, pool, scaled
from mha_core.palette import Palette, palette

_TITLES = {
    "scores": "Scores, Q Kᵀ",
    "scaled": "Scaled scores",
    "masked": "Masked scores",
    "weights": "Attention weights",
    "after dropout": "Weights after dropout",
}


@dataclass(frozen=True)
class Panel:
    """The selected heads of one tensor and batch item.

    Attributes:
        title: e.g. "Attention weights, batch item 0".
        heads: index of every map in the module.
        captions: one a head: its effective number of keys, or the range of its scores.
        notes: what a reader must know: hatching, pooling, a clipped scale.
        pooled: the numbers shown, NaN where masked; `colours` has them on their scale.
        exact: as `pooled`, before any rescaling: what hovering says.
        masked: boolean, True where every cell is masked; None where nothing is.
    """

    title: str
    heads: tuple[int, ...]
    captions: tuple[str, ...]
    notes: tuple[str, ...]
    pooled: Pooled
    exact: NDArray[np.float32]
    colours: Scaled
    masked: NDArray[np.bool_] | None

    def anchors(self, colours: Palette) -> tuple[str, ...]:
        return colours.diverging if self.colours.diverging else colours.sequential


def panel(job: Job, name: str, step: str, item: int, *, limit: int) -> Panel:
    """One panel, pooled to at most `limit` cells a side."""
    whole = head_maps(job.trace, step, item)
    maps = whole
    if job.heads != tuple(range(whole.values.shape[0])):
        index = torch.tensor(job.heads)
        maps = HeadMaps(
            step, whole.values[index], None if whole.visible is None else whole.visible[index]
        )
    # The largest weight of a block is what one looks for; of scores it would hide the negative.
    how: Pooling = "max" if maps.is_weights else "mean"
    pooled, colours = scaled(maps, limit, how, job.scale)
    relative = maps.is_weights and job.scale == "× uniform"
    exact = pool(maps, limit, how).values if relative else pooled.values
    masked = _masked(maps, pooled, limit)
    return Panel(
        title=f"{_TITLES[name]}, batch item {item}",
        heads=job.heads,
        captions=tuple(_captions(maps, colours, job.scale)),
        notes=tuple(_notes(maps, pooled, colours, masked)),
        pooled=pooled,
        exact=exact,
        colours=colours,
        masked=masked,
    )


def _masked(maps: HeadMaps, pooled: Pooled, limit: int) -> NDArray[np.bool_] | None:
    """Where all is masked. A visible number that is not a number is told apart from that."""
    if maps.visible is None or not np.isnan(pooled.values).any():
        return None
    if maps.values.isnan().any():
        blank = HeadMaps(maps.step, torch.zeros_like(maps.values), maps.visible)
        return np.isnan(pool(blank, limit, pooled.how).values)
    return np.isnan(pooled.values)


def _captions(maps: HeadMaps, colours: Scaled, scale: str) -> list[str]:
    if maps.step == "softmax":
        texts = [keys_text(keys) for keys in head_stats(maps).effective_keys]
    elif maps.is_weights:
        texts = [""] * len(maps.values)
    else:
        shown = maps.values if maps.visible is None else maps.values.where(maps.visible, torch.nan)
        texts = [_range(head.numpy()) for head in shown]
    if scale == "per head" and maps.is_weights:
        return [
            " · ".join([*([text] if text else []), f"scale to {high:.2g}"])
            for text, high in zip(texts, colours.high, strict=True)
        ]
    return texts


def _range(values: NDArray[np.float32]) -> str:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return ""
    return f"{finite.min():.1f} to {finite.max():.1f}".replace("-", "−")


def _notes(
    maps: HeadMaps, pooled: Pooled, colours: Scaled, masked: NDArray[np.bool_] | None
) -> list[str]:
    notes = []
    if masked is not None:
        notes.append("hatched: masked, not zero")
    if maps.values.isnan().any():
        notes.append("red: not a number")
    return [*notes, *shown_notes(pooled, colours)]


def shown_notes(pooled: Pooled, colours: Scaled) -> list[str]:
    """The pooling, and a scale that ends below the largest value."""
    notes = []
    if pooled.factor > 1:
        factor, side = pooled.factor, pooled.values.shape[-1]
        notes.append(
            f"{pooled.time} × {pooled.time} pooled {factor} × {factor} to {side} × {side}: "
            f"the {pooled.how} of each block"
        )
    if colours.clipped:
        notes.append("the scale ends at the 95th percentile")
    return notes


def config_words(config: MHAConfig) -> list[tuple[str, str | None]]:
    """The configuration as words, each with the name of its tint or None: ("batch 2", "batch")."""
    words: list[tuple[str, str | None]] = [
        (f"batch {config.batch}", "batch"),
        (f"time {config.time}", "time"),
        (f"d_model {config.d_model}", "d_model"),
        (f"heads {config.heads}", "h"),
        (f"d_k {config.d_k}", "d_k"),
    ]
    words += [("causal", None)] if config.causal else []
    words += [(f"dropout {config.dropout:g}", None)] if config.dropout > 0.0 else []
    words += [] if config.bias else [("no bias", None)]
    words += [(f"scale {config.scale:g}", None)] if config.scale is not None else []
    words += [(f"fill {config.fill:g}", None)] if np.isfinite(config.fill) else []
    return [*words, (config.dtype, None), (f"seed {config.seed}", None)]


def alt_text(job: Job) -> str:
    """What the figure is, for a reader who does not see it."""
    words = ", ".join(word for word, _tint in config_words(job.config))
    counts = f"{_listed('head', job.heads)} of {_listed('batch item', job.items)}"
    return (
        f"Heatmaps of {' and '.join(job.maps)} for {counts}, query from the top, "
        f"key from the left. Multi-head attention with {words}."
    )


def _listed(word: str, indices: tuple[int, ...]) -> str:
    if len(indices) == 1:
        return f"{word} {indices[0]}"
    in_a_row = len(indices) > 2 and indices == tuple(range(indices[0], indices[-1] + 1))
    listed = f"{indices[0]} to {indices[-1]}" if in_a_row else ", ".join(map(str, indices))
    return f"{word}s {listed}"


def ground(job: Job) -> Palette:
    return palette(job.mode)


def tick_stride(time: int, room: int, words: bool) -> int:
    """Positions from one tick label to the next, so that at most `room` are shown.

    1, 2, 5, 10, 20, ... for numbers; as few as needed for words.
    """
    least = -(-time // room)
    if words:
        return least
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power >= least:
                return step * power
        power *= 10
