"""Fills by dtype: what each becomes, what leaks, where NaN is born, which gradients it takes."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from torch import Tensor

from mha_core.figures.mask_fills import detail_html, matrix_html
from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.fill_records import HOWS, FillRun
from mha_core.mask_lab.filled import run, survey
from mha_core.mask_lab.fills import DTYPES, FILLS
from mha_core.mask_lab.lab import Lab
from pages.shared import look, runs
from pages.shared.choice import Choice
from pages.shared.masks_export import fill_export
from pages.shared.masks_state import kept, note, spec_of, widget

BATCH, TIME = 2, 32  # of what is run: each fill in each dtype, forward and back

HOW = {
    "replace": "replace: masked_fill",
    "add": "add a mask of 0 and the fill",
    "add twice": "add pattern and padding, one mask each",
}
TIMES = (1.0, 10.0, 100.0, 1000.0, 10000.0)


def fill_section(choice: Choice, lab: Lab) -> None:
    """Every fill in every dtype on the built mask; the chosen one step by step, and back."""
    small = lab.cut(BATCH, TIME)
    spec, error = spec_of(choice, lab)
    if error is not None:
        st.error(look.safe(str(error)), icon=":material/error:")
    look.section("Fill by dtype, as textbook code has it", _note(small))
    _controls()
    fills = _fills()
    spec = _fitted(spec, small)
    key = ("mask fills", spec, fills, kept()["how"], kept()["times"])
    rows: list[list[FillRun]] = runs.derived(choice, key, lambda: _survey(small, spec, fills))
    picked = _picked(fills)
    look.clickable(look.block(matrix_html(rows, picked)), key="mk_fills", on_pick=_pick)
    detail: FillRun = runs.derived(choice, (*key, picked), lambda: _detail(small, spec, picked))
    look.section("Step by step, and back", "counts are of NaN and infinities torch produced")
    st.html(look.block(detail_html(detail)))
    fill_export(choice, rows)


def _note(small: Lab) -> str:
    own = "the mask of Build, this run's weights cast to each dtype"
    return f"{own} · {note(small)}" if note(small) else own


def _controls() -> None:
    with st.container(horizontal=True, key="mk_fill", vertical_alignment="bottom"):
        key, changed = widget("how")
        st.selectbox("how the fill gets in", HOWS, key=key, on_change=changed, width=300,
                     format_func=HOW.__getitem__)  # fmt: skip
        key, changed = widget("times")
        st.selectbox("scores ×", TIMES, key=key, on_change=changed, width=120,
                     format_func=lambda value: f"{value:,.0f}")  # fmt: skip
        key, changed = widget("custom")
        st.number_input("a fill of your own", -1e38, -1e-6, key=key, on_change=changed,
                        width=170, format="%g")  # fmt: skip
        key, changed = widget("blind")
        st.toggle(
            "hide every key of query 0",
            key=key,
            on_change=changed,
            help="A row without a visible key, as left padding under causal makes.",
        )


def _fills() -> tuple[str, ...]:
    custom = f"{kept()['custom']:g}"
    known = {"-1e+09": "-1e9", "-1e9": "-1e9", "-10000": "-1e4", "-1e+04": "-1e4"}
    own = () if custom in known else (custom,)
    return ("ours", *FILLS, *own)


def _fitted(spec: MaskSpec, small: Lab) -> MaskSpec:
    """The mask cut to what is run, with query 0's row emptied where that is asked for."""
    time = small.time
    drawn = {(q, k): v for q, k, v in spec.drawn if q < time and k < time}
    if kept()["blind"]:
        drawn |= {(0, key): False for key in range(time)}
    lengths = spec.lengths[: small.batch]
    if spec.side == "left":  # the first keys are those that are padding
        lengths = tuple(max(0, n - (spec.time_k - time)) for n in lengths)
    return replace(
        spec,
        time_q=time,
        time_k=time,
        prefix=min(spec.prefix, time),
        lengths=tuple(min(n, time) for n in lengths),
        drawn=tuple(sorted((q, k, v) for (q, k), v in drawn.items())),
    )


def _parts(spec: MaskSpec, small: Lab) -> tuple[Tensor, Tensor | None]:
    device = small.x.device
    return build.pattern(spec, device=device), build.padding(spec, device=device)


def _survey(small: Lab, spec: MaskSpec, fills: tuple[str, ...]) -> list[list[FillRun]]:
    how, times = kept()["how"], kept()["times"]
    return survey(small, _parts(spec, small), fills, DTYPES, how=how, times=times)


def _picked(fills: tuple[str, ...]) -> tuple[str, str]:
    fill, dtype = kept()["picked"]
    return (fill, dtype) if fill in fills and dtype in DTYPES else ("-inf", "float32")


def _pick(value: str) -> None:
    fill, _, dtype = value.rpartition("|")
    kept()["picked"] = (fill, dtype)


def _detail(small: Lab, spec: MaskSpec, picked: tuple[str, str]) -> FillRun:
    fill, dtype = picked
    ours = fill == "ours"
    return run(
        small, _parts(spec, small), "-inf" if ours else fill, dtype,
        how=kept()["how"], times=kept()["times"], backward=True, ours=ours,
    )  # fmt: skip
