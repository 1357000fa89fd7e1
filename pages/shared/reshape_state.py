"""The reshape playground's fields: one plain dictionary, the address, and the last good run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.reshape import Run, plan_chain, plan_pattern, run
from mha_core.reshape.limits import MAX_TEXT
from mha_core.reshape.listing import Typed, as_chain, as_pattern
from mha_core.reshape.presets import PRESETS
from pages.shared.store import store

MODES = ("einops", "torch")
_FIRST = PRESETS["split heads"]
_DEFAULTS: dict[str, Any] = {
    "mode": "einops", "pattern": _FIRST.pattern, "chain": "", "shape": _FIRST.shape,
    "axes": _FIRST.axes, "colour": _FIRST.colour, "element": _FIRST.element, "step": -1,
}  # fmt: skip
_TEXTS = ("pattern", "chain", "shape", "axes")


def values() -> dict[str, Any]:
    """The session's fields; on the first run those of the address, where it has any."""
    if "reshape" not in st.session_state:
        found, notices = from_query({key: st.query_params[key] for key in st.query_params})
        st.session_state["reshape"] = found
        st.session_state["reshape_notices"] = notices
    stored: dict[str, Any] = st.session_state["reshape"]
    return stored


def put(**changes: Any) -> None:
    """Stores fields. What was said of the address is said no more."""
    st.session_state["reshape"] |= changes
    st.session_state["reshape_notices"] = []


def widget(name: str) -> tuple[str, Callable[[], None]]:
    """Key and callback of the widget for a field."""
    key = f"rp_{name}"
    st.session_state[key] = values()[name]
    return key, lambda: put(**{name: st.session_state[key]})


def to_query(stored: dict[str, Any]) -> dict[str, str]:
    """The fields as query parameters: what is typed, and whatever was chosen."""
    text = "pattern" if stored["mode"] == "einops" else "chain"
    names = [text, "shape", *(name for name in ("axes", "colour") if stored[name])]
    names += [name for name in ("element", "step") if stored[name] >= 0]
    return {name: str(stored[name]) for name in names}


def from_query(query: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Fields from query parameters, and what of them could not be used."""
    found = dict(_DEFAULTS)
    notices: list[str] = []
    if "pattern" in query or "chain" in query:
        # A pattern of one's own comes with a shape and sizes of its own.
        found |= {"axes": "", "shape": "", "colour": "", "element": -1}
    for name, text in query.items():
        if name in _TEXTS and len(text) <= 10 * MAX_TEXT[name]:
            found[name] = text
        elif name in ("element", "step") and text.lstrip("-").isdecimal() and len(text) < 12:
            found[name] = int(text)
        elif name == "colour":
            found[name] = text if text[:2] in ("in", "ou") and len(text) < 8 else ""
        elif name in _DEFAULTS:
            quoted = text[:60].replace("`", "'")
            notices.append(f"The address has `{name}={quoted}`, which cannot be used.")
    found["mode"] = "torch" if "chain" in query and "pattern" not in query else "einops"
    return found, notices


def _run(mode: str, text: str, shape: str, axes: str) -> Run:
    """The run of what was typed, from the store where another session had it."""
    plan = plan_pattern if mode == "einops" else plan_chain
    made: Run = store("reshape").get(
        (mode, text, shape, axes), lambda: run(plan(text, shape, axes)), lambda _: 2**15
    )
    return made


def resolve() -> tuple[Run | None, ConfigError | None]:
    """The run to show, and why the present fields have none; then it is the last that ran."""
    stored = values()
    text = stored["pattern" if stored["mode"] == "einops" else "chain"]
    try:
        made = _run(stored["mode"], text, stored["shape"], stored["axes"])
    except ConfigError as error:
        last: Run | None = st.session_state.get("reshape_good")
        st.session_state["reshape_fits"] = False
        return last, error
    st.session_state["reshape_good"] = made
    st.session_state["reshape_fits"] = True
    sync_address()
    return made, None


def element(made: Run) -> int:
    """The element followed: where x has shrunk, the last there is; until one is chosen, one that is
    neither first nor last on most axes."""
    wanted: int = values()["element"]
    numel = made.plan.numel
    return min(wanted, numel - 1) if wanted >= 0 else int(0.618 * numel)


def sync_address() -> None:
    """Keeps the address a description of the view: of the last that ran."""
    if not st.session_state["reshape_fits"]:
        return
    query = to_query(values())
    if dict(st.query_params) != query:
        st.query_params.from_dict(query)


def switch(mode: str) -> None:
    """The other language: what is shown, written in it, where that can be done."""
    good: Run | None = st.session_state.get("reshape_good")
    typed: Typed | None = None
    if good is not None:
        typed = as_chain(good) if mode == "torch" else as_pattern(good)
    if typed is None:
        st.session_state["reshape_notices"] = [
            "No einops pattern says this: a view regroups elements across the axes."
        ]
        return
    text = "chain" if mode == "torch" else "pattern"
    put(mode=mode, shape=typed.shape, axes=typed.axes, **{text: typed.text})


def choose(name: str) -> None:
    """A preset, in the language in use."""
    mode = values()["mode"]
    fields = asdict(PRESETS[name])
    fields.pop("about")
    put(mode="einops", step=-1, **fields)
    if mode == "torch":
        resolve()
        switch("torch")


def preset() -> str | None:
    """The preset in view, if it is one."""
    stored = values()
    for name, known in PRESETS.items():
        if stored["mode"] == "einops":
            same = (stored["pattern"], stored["axes"]) == (known.pattern, known.axes)
            if same and stored["shape"] == known.shape:
                return name
        else:
            typed = as_chain(_run("einops", known.pattern, known.shape, known.axes))
            if Typed(stored["chain"], stored["shape"], stored["axes"]) == typed:
                return name
    return None
