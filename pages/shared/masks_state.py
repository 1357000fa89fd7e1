"""What the masks page keeps between runs and page switches: the mask's parts and the settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import streamlit as st

from mha_core import Trace
from mha_core.errors import ConfigError
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.lab import Lab
from pages.shared.choice import Choice
from pages.shared.step_link import step_link

PARTS = ("causal", "prefix", "sliding window", "blocks", "padding")

_DEFAULTS: dict[str, Any] = {
    "section": "Build",
    "parts": ["causal"],
    "prefix": 2,
    "window": 3,
    "blocks": "3",
    "lengths": "",
    "side": "right",
    "drawn": {},
    "stroke": 0,
    "item": 0,
    "head": 0,
    "have": "keep",
    "need": "additive",
    "shape": "batch, 1, 1, Tk",
    "time_q": 2,
    "time_k": 5,
    "prompt": 3,
    "chunk": 1,
    "how": "replace",
    "times": 1.0,
    "custom": -10.0,
    "blind": True,
    "picked": ("-inf", "float32"),
    "keys": 64,
}

# Of a section, the step of the pipeline it is about.
_STEP = {"Scale": "scale", "Fill and NaN": "softmax"}


def kept() -> dict[str, Any]:
    """The page's fields. Widgets own nothing, so that values outlive a page switch."""
    found: dict[str, Any] = st.session_state.setdefault("masks", dict(_DEFAULTS))
    return found


def widget(name: str, shown: Any = None) -> tuple[str, Callable[[], None]]:
    """Key and callback of the widget for a field, which shows the field or `shown`."""
    key = f"w_mk_{name}"
    st.session_state[key] = kept()[name] if shown is None else shown

    def changed() -> None:
        kept()[name] = st.session_state[key]

    return key, changed


def section(names: list[str]) -> str:
    """The section in view."""
    if kept()["section"] not in names:
        kept()["section"] = names[0]
    key, changed = widget("section")
    st.segmented_control(
        "section", names, key=key, on_change=changed, required=True, label_visibility="collapsed"
    )
    chosen: str = kept()["section"]
    return chosen


def own_words(choice: Choice) -> None:
    """Says what of the sidebar has no part here, where it is set."""
    config = choice.config
    given = {"causal": config.causal, "scale": config.scale is not None,
             "fill": config.fill != -math.inf, "dropout": config.dropout > 0.0}  # fmt: skip
    named = [name for name, there in given.items() if there]
    if named:
        st.caption(
            f"Here the mask is the one you build, and nothing else is added to it: the sidebar’s "
            f"{' and '.join(named)} {'acts' if len(named) == 1 else 'act'} on the other pages."
        )


def home_link(chosen: str, trace: Trace) -> None:
    """To the step of the pipeline that the section is about."""
    step = _STEP.get(chosen, "mask")
    step_link(step, ran=step in trace)


def default_lengths(choice: Choice, lab: Lab) -> tuple[int, ...]:
    """The lengths of a real model's texts; else each item two thirds of the one before."""
    if choice.words is not None:
        return tuple(min(length, lab.time) for length in choice.words.lengths[: lab.batch])
    found = [lab.time]
    while len(found) < lab.batch:
        found.append(max(1, found[-1] * 2 // 3))
    return tuple(found)


def spec_of(choice: Choice, lab: Lab) -> tuple[MaskSpec, ConfigError | None]:
    """The mask that was built; where its fields cannot be one, the last that could, and why."""
    try:
        spec = _spec(choice, lab)
    except ConfigError as error:
        good: MaskSpec | None = st.session_state.get("masks_good")
        fits = good is not None and (good.time_k, len(good.lengths) in (0, lab.batch)) == (
            lab.time, True
        )  # fmt: skip
        if good is not None and fits:
            return good, error
        return MaskSpec(time_q=lab.time, time_k=lab.time, causal=True), error
    st.session_state["masks_good"] = spec
    return spec, None


def _spec(choice: Choice, lab: Lab) -> MaskSpec:
    fields, time = kept(), lab.time
    parts = fields["parts"]
    lengths: tuple[int, ...] = ()
    if "padding" in parts:
        lengths = _numbers("lengths", fields["lengths"]) or default_lengths(choice, lab)
        if len(lengths) != lab.batch:
            raise ConfigError(
                "lengths", fields["lengths"],
                f"must be {lab.batch} numbers, one a batch item, not {len(lengths)}",
                works=f"This works: {', '.join(map(str, default_lengths(choice, lab)))}",
            )  # fmt: skip
    blocks: tuple[int, ...] = ()
    if "blocks" in parts:
        blocks = _numbers("blocks", fields["blocks"])
        if not blocks:
            raise ConfigError("blocks", fields["blocks"], "must be one size, or a list of sizes",
                              works="This works: 3")  # fmt: skip
    drawn = tuple(
        sorted((q, k, v) for (q, k), v in fields["drawn"].items() if q < time and k < time)
    )
    return MaskSpec(
        time_q=time,
        time_k=time,
        causal="causal" in parts,
        prefix=min(fields["prefix"], time) if "prefix" in parts else 0,
        window=fields["window"] if "sliding window" in parts else 0,
        blocks=blocks,
        lengths=lengths,
        side=fields["side"],
        drawn=drawn,
    )


def _numbers(field: str, text: str) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,;]+", text.strip()) if part]
    for part in parts:
        if not re.fullmatch(r"\d{1,6}", part, flags=re.ASCII):
            raise ConfigError(
                field, part, "must be whole numbers with commas between", works="This works: 6, 4"
            )
    return tuple(int(part) for part in parts)


def note(lab: Lab) -> str:
    """Beside a heading: what of the run was left out, or nothing."""
    said = lab.said()
    return f"run on {said}" if said else ""
