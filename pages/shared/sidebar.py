"""The sidebar: every choice that makes a run, each with its error beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import streamlit as st

from mha_core.devices import DEVICES, DTYPES, missing_device
from mha_core.errors import ConfigError
from pages.shared import look, runs, sources, state
from pages.shared.choice import Choice, Given
from pages.shared.compare_section import pin_button
from pages.shared.source_section import source_chooser, source_controls
from pages.shared.state import LIMITS
from pages.shared.uploads import Waiting

STOPS = {
    "batch": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    "time": (1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
             1536, 2048),
    "d_model": (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
                2048),
    "heads": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
}  # fmt: skip
LONG_STOPS = (3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768)

BRAND = (
    '<div class="soa brand">The Shape of Attention'
    "<small>multi-head attention, as it reshapes</small></div>"
)

LABELS = {
    "batch": ":violet[**batch**]",
    "time": ":green[**time**]",
    "d_model": ":orange[**d_model**]",
    "heads": ":red[**h**]",
}

HELP = {
    "batch": "Sequences processed together.",
    "time": "Positions in each sequence. A text input sets it.",
    "d_model": "Width of the input and of the output. A multiple of h.",
    "heads": "Number of heads. Divides d_model; each head is d_k = d_model / h wide.",
}


def resolve(
    check: Callable[[Choice], None] = runs.check, *, long: bool = False
) -> tuple[Choice | Given | None, ConfigError | None]:
    """What to show, and why the present choice cannot run if it cannot.

    Then the last that could is shown, or None where there is none yet. The one place where a
    configuration is refused: `check` says which fit the page, `long` that it shows any time.
    """
    stored = state.values()
    try:
        wanted = sources.choice(stored)
        if isinstance(wanted, Choice):
            check(wanted)
    except ConfigError as error:
        good: Choice | Given | None = st.session_state.get("good")
        if isinstance(good, Choice) and good.config.time > state.WHOLE and not long:
            good = None  # of a page that shows longer maps
        return good, error
    st.session_state["good"] = wanted
    state.sync_address(stored)
    return wanted, None


def sidebar(
    choice: Choice | Given | None, error: ConfigError | None, *, long: bool = False
) -> None:
    """Every control, with the error beside the one at fault; `choice` is what can be pinned.

    `long`: the time's slider goes to where only maps can be had.
    """
    stored = state.values()
    with st.sidebar:
        st.html(BRAND)
        _presets()
        source_chooser(stored)
        if stored["source"] == "random":
            _random(stored, error, long)
        else:
            source_controls(stored, choice)
            if stored["source"] == "weights":
                for name in ("batch", "time"):
                    _size(name, stored, None, long)
                _causal(stored)
                _input(stored, None)
            _error(error, set(), others=True)
        if isinstance(choice, Choice):
            pin_button(choice)
        for notice in st.session_state.get("notices", []):
            st.warning(notice, icon=":material/link_off:")


def _random(stored: dict[str, Any], error: ConfigError | None, long: bool) -> None:
    """The sizes and settings of random weights."""
    for name in ("batch", "time", "d_model", "heads"):
        _size(name, stored, error, long)
    _width(stored)
    _error(error, {"device", "dtype", "seed", "dropout", "bias", "scale", "fill"}, others=True)
    _causal(stored)
    _input(stored, error)
    # Closed, it costs nothing: what is in it is drawn once it is open.
    more = st.expander(
        "seed, dtype, device, dropout, bias, scale, fill", key="w_more", on_change="rerun"
    )
    if more.open:
        with more:
            _more(stored)


def _presets() -> None:
    key = "w_preset"
    st.session_state[key] = None

    def apply() -> None:
        chosen = st.session_state[key]
        if chosen:
            state.put(state.PRESETS[chosen])

    st.pills("presets", list(state.PRESETS), key=key, on_change=apply, label_visibility="collapsed")


def _size(name: str, stored: dict[str, Any], error: ConfigError | None, long: bool) -> None:
    value = stored[name]
    fixed = name == "time" and stored["input"] == "text"
    if fixed:
        value = min(max(1, len(stored["text"].split())), LIMITS[name])
    more = LONG_STOPS if long and name == "time" else ()
    options = sorted({*STOPS[name], *more, value})
    with st.container(horizontal=True, key=f"size_{name}"):
        key, changed = state.widget(name, value)
        st.select_slider(
            LABELS[name], options, key=key, on_change=changed, help=HELP[name], disabled=fixed
        )
        key, changed = state.widget(f"{name}#exact", value)
        st.number_input(
            f"{name}, exactly", 1, LIMITS[name], step=1, key=key, on_change=changed,
            label_visibility="collapsed", disabled=fixed,
        )  # fmt: skip
    _error(error, {name})


def _width(stored: dict[str, Any]) -> None:
    if stored["d_model"] % stored["heads"] == 0:
        d_k = stored["d_model"] // stored["heads"]
        st.markdown(
            f":blue[**d_k**] = :orange[{stored['d_model']}] / :red[{stored['heads']}] "
            f"= :blue[**{d_k}**]"
        )


def _error(error: ConfigError | None, names: set[str], *, others: bool = False) -> None:
    """The error, where its control is, with one-click repairs."""
    # With a real model every error stands in one place, under its controls.
    real = state.values()["source"] != "random"
    known = set() if real else {"batch", "time", "d_model", "heads", "text"}
    if error is None or not (error.field in names or (others and error.field not in known)):
        return
    if isinstance(error, Waiting):
        st.info(f"{error.field} {error.rule}", icon=":material/upload_file:")
        return
    st.error(look.safe(str(error)), icon=":material/error:")
    # A text sets its own time: a repair of it would do nothing.
    by_text = state.values()["input"] == "text"
    offered = [
        repair for repair in error.repairs if not real and not (by_text and "time" in repair)
    ]
    with st.container(horizontal=True, key=f"repairs_{error.field}", gap="small"):
        for n, repair in enumerate(offered[:4]):
            label = ", ".join(f"{name} {value}" for name, value in repair.items())
            st.button(
                f"Set {label}", key=f"repair_{error.field}_{n}", on_click=state.put, args=(repair,)
            )


def _causal(stored: dict[str, Any]) -> None:
    key, changed = state.widget("causal", stored["causal"])
    st.toggle(
        "**causal**", key=key, on_change=changed, help="A token sees itself and those before it."
    )


def _input(stored: dict[str, Any], error: ConfigError | None) -> None:
    key, changed = state.widget("input", stored["input"])
    st.segmented_control(
        "input", ["random", "text"], key=key, on_change=changed, required=True, width="stretch"
    )
    if stored["input"] == "text":
        key, changed = state.widget("text", stored["text"])
        st.text_area(
            "text",
            key=key,
            on_change=changed,
            height=80,
            label_visibility="collapsed",
            help="Its words, split at white space, label the axes; their number is time.",
        )
        _error(error, {"text"})


def _more(stored: dict[str, Any]) -> None:
    key, changed = state.widget("seed", stored["seed"])
    st.number_input("seed", 0, 2**53 - 1, step=1, key=key, on_change=changed)
    st.button(
        "new sample", on_click=state.put, args=({"seed": stored["seed"] + 1},), width="stretch"
    )
    key, changed = state.widget("dtype", stored["dtype"])
    st.selectbox("dtype", list(DTYPES), key=key, on_change=changed)
    _device(stored)
    key, changed = state.widget("dropout", stored["dropout"])
    st.slider(
        "dropout", 0.0, max(0.9, stored["dropout"]), step=0.05, key=key, on_change=changed,
        help="In training, after softmax. Above 0 the forward runs in training mode.",
    )  # fmt: skip
    key, changed = state.widget("bias", stored["bias"])
    st.toggle("bias", key=key, on_change=changed)
    _scale(stored)
    _fill(stored)


def _device(stored: dict[str, Any]) -> None:
    reasons = {name: missing_device(name) for name in DEVICES}
    has = [name for name, reason in reasons.items() if reason is None]
    key, changed = state.widget("device", stored["device"])
    st.selectbox("device", has, key=key, on_change=changed)
    missing = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    if missing:
        st.caption("; ".join(missing))


def _scale(stored: dict[str, Any]) -> None:
    factors = {
        "1/√d_k": None,
        "none": 1.0,
        "1/√d_model": 1.0 / math.sqrt(stored["d_model"]),
    }
    now = next((name for name, factor in factors.items() if factor == stored["scale"]), None)
    names = list(factors)
    if now is None:  # from an address, or d_model has changed since
        now = f"{stored['scale']:.6g}"
        factors[now] = stored["scale"]
        names.append(now)
    st.session_state["w_scale"] = now
    st.selectbox(
        "scale of the scores", names, key="w_scale",
        on_change=lambda: state.put({"scale": factors[st.session_state["w_scale"]]}),
        help="The factor between Q @ Kᵀ and softmax.",
    )  # fmt: skip


def _fill(stored: dict[str, Any]) -> None:
    fills = {"−∞": -math.inf, "−1e9, added": -1e9, "−1e4, added": -1e4}
    now = next((name for name, fill in fills.items() if fill == stored["fill"]), None)
    names = list(fills)
    if now is None:
        now = f"{stored['fill']:g}, added"
        fills[now] = stored["fill"]
        names.append(now)
    st.session_state["w_fill"] = now
    st.selectbox(
        "fill of a masked score", names, key="w_fill",
        on_change=lambda: state.put({"fill": fills[st.session_state["w_fill"]]}),
        help="−∞ replaces the score; textbook code adds −1e9 instead.",
    )  # fmt: skip
