"""What costs along a size come to, in sentences made from the numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from mha_core import cost
from mha_core.charts import short_seconds, si, written
from mha_core.config import MHAConfig
from mha_core.errors import human_bytes
from mha_core.figures.text import plural, tinted_sizes
from mha_core.measure import machine
from mha_core.palette import Palette
from mha_core.scaling import ATTENTION, GROUPS, Ended, Measured
from mha_core.scaling_charts import AXIS_NAMES, crossing_of
from mha_core.spread import Spread

_TINTS = {"batch": "batch", "time": "time", "d_model": "d_model", "heads": "h"}


def title(config: MHAConfig, axis: str) -> str:
    """What was run, for a figure in a file."""
    fixed = [f"{AXIS_NAMES[name]} {getattr(config, name)}" for name in _TINTS if name != axis]
    fixed += ["causal"] if config.causal else []
    return f"over {AXIS_NAMES[axis]}; {', '.join(fixed)}, {config.dtype}, {machine(config.device)}"


def heading(config: MHAConfig, axis: str, colours: Palette) -> str:
    """The sizes that stay, each in its tint, and those that follow."""
    fixed = [
        f'<span style="color:{colours.tints[tint]}">{AXIS_NAMES[name]} = '
        f"{getattr(config, name):,}</span>"
        for name, tint in _TINTS.items()
        if name != axis
    ]
    follows = {
        "d_model": f"a multiple of h, so that d_k = d_model / {config.heads} grows with it",
        "heads": f"a divisor of d_model, so that d_k = {config.d_model} / h shrinks",
    }
    more = f"; {AXIS_NAMES[axis]} is {follows[axis]}" if axis in follows else ""
    return f'<div class="key sc-fixed">{", ".join(fixed)} stay{more}. Random weights.</div>'


def headline(config: MHAConfig, colours: Palette) -> str:
    """One forward of the configuration, by the formulas."""
    x = tinted_sizes(
        (config.batch, config.time, config.d_model), ("batch", "time", "d_model"), colours
    )
    flops = cost.flops(config)
    products = sum(flops[step] for step in GROUPS["Q @ Kᵀ and weights @ V"])
    facts = [
        (si(sum(flops.values())), "FLOPs"),
        (f"{100 * products / sum(flops.values()):.3g} %", "of them attention"),
        (human_bytes(sum(cost.allocated(config).values())), "allocated"),
        (human_bytes(cost.peak(config)), "peak"),
        (f"{cost.parameters(config):,}", "parameters"),
    ]
    row = "".join(f"<span><b>{value}</b> {what}</span>" for value, what in facts)
    line = (
        f'<span class="shape">{x}</span><span class="verb">one forward, h = {config.heads}</span>'
    )
    return f'<div class="glance"><div class="line">{line}</div><div class="facts">{row}</div></div>'


def sentences(
    axis: str, measured: Sequence[Measured], ended: Ended | None, *, broken: bool
) -> list[str]:
    """What was measured, where attention takes longer, and why no more was. As HTML."""
    said: list[str] = []
    if measured:
        said += [_agreement(measured), _time(axis, measured), *_fused(axis, measured)]
    if ended is not None:
        size = f"{AXIS_NAMES[axis]} = {getattr(ended.config, axis):,}"
        said.append(f"Not measured from {size} on: it {html.escape(ended.reason)}.")
    if broken:
        said.append("Broken off: what was measured until then is shown.")
    return said


def closed_words(axis: str, config: MHAConfig) -> str:
    """Where attention overtakes the projections, by the formulas. As HTML."""
    if axis == "time":
        equal = cost.crossover_time(config)
        return (
            f"<b>FLOPs</b>: attention overtakes the projections at time = 2·d_model = {equal:,}: "
            "8·batch·time·d_model² against 4·batch·time²·d_model. <b>Memory</b>: one map is larger "
            f"than one activation above time = d_k = {config.d_k:,}."
        )
    if axis == "d_model":
        return (
            f"<b>FLOPs</b>: the projections grow with d_model², attention with d_model: below "
            f"d_model = time / 2 = {config.time / 2:g} attention costs more."
        )
    if axis == "heads":
        return (
            "<b>FLOPs</b> do not depend on h: h heads of d_model / h. <b>Memory</b> does: every "
            "head has maps of its own."
        )
    longer = config.time > cost.crossover_time(config)
    ahead = "attention costs" if longer else "the projections cost"
    return (
        "Everything grows with batch alike, so nothing overtakes anything: at time = "
        f"{config.time:,} and d_model = {config.d_model:,}, {ahead} "
        "more FLOPs."
    )


def _agreement(measured: Sequence[Measured]) -> str:
    """How far the formulas are from what was counted."""
    off = max(
        max(
            abs(sum(one.allocated.values()) / sum(cost.allocated(one.config).values()) - 1),
            abs(one.peak / cost.peak(one.config) - 1),
        )
        for one in measured
    )
    exact = all(
        count == cost.flops(one.config)[step]
        for one in measured
        for step, count in one.flops.items()
    )
    flops = "FLOPs equal to the formulas" if exact else "FLOPs not equal to the formulas"
    moved = "bytes equal" if off == 0 else f"bytes within {100 * off:.2g} %"
    return f"Counted at {plural(len(measured), 'size')}: {flops}, {moved}."


def _time(axis: str, measured: Sequence[Measured]) -> str:
    """Which side takes longer, and where that turns."""
    config, last = measured[0].config, measured[-1]
    on = f"On this machine ({html.escape(machine(config.device))}, {config.dtype})"
    place = crossing_of(axis, measured)
    if place is not None:
        return (
            f"{on} the <b>times</b> of attention and of the projections are equal at about "
            f"{AXIS_NAMES[axis]} = {place:,.0f}."
        )
    both = {
        "the projections": last.seconds(GROUPS["projections"]).median,
        "attention": last.seconds(ATTENTION).median,
    }
    longer = max(both, key=lambda name: both[name])
    other = min(both.values())
    return (
        f"{on} {longer} took longer at every size measured: {short_seconds(both[longer])} against "
        f"{short_seconds(other)} at {AXIS_NAMES[axis]} = {getattr(last.config, axis):,}."
    )


def _fused(axis: str, measured: Sequence[Measured]) -> list[str]:
    """Peak memory of whole weights against the fused kernel, at the largest size."""
    last = measured[-1]
    size = f"{AXIS_NAMES[axis]} = {getattr(last.config, axis):,}"
    less, more = sorted((last.materialised or 1, last.fused or 1))
    verdict = f"{more / less:.3g} times {'less' if less == last.fused else 'more'}"
    if last.materialised is None or not last.fused:
        return [f"torch keeps no highest mark of memory on {last.config.device}."]
    return [
        f"<b>Peak memory</b> of attention alone, as the allocator saw it, at {size}: "
        f"{human_bytes(last.materialised)} with whole weights, {human_bytes(last.fused)} in "
        f"F.scaled_dot_product_attention ({html.escape(last.kernel)}), "
        f"{verdict}; outputs differ by at most "
        f"{last.difference:.2g}."
    ]


def spread_words(found: Sequence[Spread], own: Spread) -> str:
    """What scaling does to scores and weights, in the numbers drawn. As HTML."""
    last = found[-1]
    return (
        f"A score is a sum of d_k products, so its standard deviation is √d_k: "
        f"{math.sqrt(last.d_k):.4g} at d_k = {last.d_k:,}, and {written(last.raw, 'number')} in "
        f"these numbers. Softmax of such scores is nearly "
        f"one-hot: entropy {last.raw_entropy:.2f} nats over {last.keys} keys, "
        f"{last.scaled_entropy:.2f} once divided by √d_k. This run, d_k = {own.d_k:,}: scores "
        f"{written(own.raw, 'number')}, scaled {written(own.scaled, 'number')}; entropy "
        f"{own.raw_entropy:.2f} and {own.scaled_entropy:.2f} nats over {own.keys:,} keys, no mask."
    )
