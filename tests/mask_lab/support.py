"""What the tests of masks share: a lab of pairwise different sizes, and masks of every kind."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mha_core import MHAConfig, trace_forward
from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.lab import Lab, lab_of

BATCH, HEADS, TIME, D_K = 2, 3, 5, 7
SIZES: dict[str, Any] = {"batch": BATCH, "heads": HEADS, "time": TIME, "d_model": HEADS * D_K}


def lab(**changes: Any) -> Lab:
    """The lab of a run with the odd sizes, in float64 unless changed."""
    return lab_of(trace_forward(MHAConfig(**(SIZES | {"dtype": "float64"} | changes))))


def spec(**parts: Any) -> MaskSpec:
    return MaskSpec(**({"time_q": TIME, "time_k": TIME} | parts))


def parts_of(made: MaskSpec) -> tuple[Any, Any]:
    return build.pattern(made), build.padding(made)


# One of each part, and what they make together.
KINDS: dict[str, MaskSpec] = {
    "nothing": spec(),
    "causal": spec(causal=True),
    "prefix": spec(prefix=3),
    "window": spec(window=2),
    "causal window": spec(causal=True, window=2),
    "blocks": spec(blocks=(2,)),
    "packed": spec(causal=True, blocks=(2, 1, 2)),
    "padding": spec(lengths=(5, 3)),
    "causal padding": spec(causal=True, lengths=(4, 2)),
    "left padding": spec(causal=True, lengths=(5, 3), side="left"),
    "an empty item": spec(lengths=(5, 0)),
    "drawn": spec(causal=True, drawn=((0, 4, True), (3, 1, False))),
    "an empty row": spec(drawn=tuple((2, key, False) for key in range(TIME))),
}


def specs() -> st.SearchStrategy[MaskSpec]:
    """Masks of any parts together."""

    @st.composite
    def build_one(draw: st.DrawFn) -> MaskSpec:
        time_q, time_k = draw(st.integers(1, 7)), draw(st.integers(1, 7))
        cell = st.tuples(st.integers(0, time_q - 1), st.integers(0, time_k - 1))
        drawn = draw(st.dictionaries(cell, st.booleans(), max_size=4))
        return MaskSpec(
            time_q=time_q,
            time_k=time_k,
            causal=draw(st.booleans()),
            align=draw(st.sampled_from(["upper_left", "lower_right"])),
            prefix=draw(st.integers(0, time_k)),
            window=draw(st.integers(0, 5)),
            blocks=tuple(draw(st.lists(st.integers(1, 4), max_size=3))),
            lengths=tuple(draw(st.lists(st.integers(0, time_k), max_size=3))),
            side=draw(st.sampled_from(["right", "left"])),
            drawn=tuple((q, k, v) for (q, k), v in drawn.items()),
        )

    return build_one()
