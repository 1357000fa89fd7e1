"""The session's configuration: one plain dictionary, the address, and the last good view.

Widgets own nothing: before each run a widget's key is set from the dictionary, and its on_change
stores that one field, so that values outlive a page switch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import streamlit as st

from mha_core import MHAConfig
from mha_core.devices import DTYPES
from mha_core.errors import ConfigError
from mha_core.inputs import tokenize
from mha_core.models.hub import MINILM
from pages.shared import layers
from pages.shared.choice import Choice

LIMITS = {"batch": 64, "time": 2048, "d_model": 2048, "heads": 64}

SENTENCE = "the animal slept because it was tired"
REAL_SENTENCE = "The animal didn't cross the street because it was too tired."

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "batch": 2, "time": 6, "d_model": 32, "heads": 4, "causal": False, "input": "random",
        "source": "random",
    },
    "classic 512 × 8": {
        "batch": 2, "time": 10, "d_model": 512, "heads": 8, "causal": False, "input": "random",
        "source": "random",
    },
    "decoder": {
        "batch": 2, "d_model": 32, "heads": 4, "causal": True, "input": "text", "text": SENTENCE,
        "source": "random",
    },
    "MiniLM-L6": {
        "source": MINILM, "layer": 3, "sentences": REAL_SENTENCE, "pair": "",
    },
}  # fmt: skip

_DEFAULTS: dict[str, Any] = {
    **{f.name: f.default for f in fields(MHAConfig)},
    "input": "random",
    "text": SENTENCE,
    "source": "random",
    "layer": 0,
    "sentences": REAL_SENTENCE,
    "pair": "",
}

# Fields that are not of the configuration; those of a real model come after the source.
_REAL = ("layer", "sentences", "pair")
_OWN = ("input", "text", "source", *_REAL)


@dataclass
class Parsed:
    """Fields read from an address, and what of it could not be used."""

    values: dict[str, Any]
    notices: list[str] = field(default_factory=list)


def values() -> dict[str, Any]:
    """The session's fields; on the first run those of the address, where it has any."""
    if "config" not in st.session_state:
        parsed = from_query({key: st.query_params[key] for key in st.query_params})
        st.session_state["config"] = _DEFAULTS | parsed.values
        st.session_state["notices"] = parsed.notices
    _settle()
    stored: dict[str, Any] = st.session_state["config"]
    return stored


def widget(name: str, shown: Any) -> tuple[str, Callable[[], None]]:
    """Key and callback of the widget for a field; `shown` is what it shows of the value.

    A field may have two widgets, a slider and its exact entry. When one of them is used, the script
    moves the other; a browser that sends its next change before it has heard of that sends the
    other's old value along, which looks like a change too.
    """
    key = f"w_{name}"
    moved = st.session_state.setdefault("moved", {})
    before = st.session_state.get(key, shown)
    if before != shown:
        moved[key] = before
    else:
        moved.pop(key, None)  # the browser has heard
    st.session_state[key] = shown

    def changed() -> None:
        value = st.session_state[key]
        echo = key in moved and moved[key] == value
        put({name.split("#")[0]: value}, echo=echo)

    return key, changed


def put(changes: dict[str, Any], *, echo: bool = False) -> None:
    """Stores fields; an echo is one that may come from a browser that has not heard yet."""
    st.session_state.setdefault("changes", []).append((echo, changes))


def _settle() -> None:
    """Takes what was put since the last run. A person changes one thing: echoes beside it go."""
    changes: list[tuple[bool, dict[str, Any]]] = st.session_state.pop("changes", [])
    meant = [change for echo, change in changes if not echo]
    for change in meant or [change for _, change in changes]:
        st.session_state["config"] |= change


def choice(stored: dict[str, Any]) -> Choice:
    """The fields as a configuration that can run.

    Raises:
        ConfigError: naming the field at fault.
    """
    if stored["source"] != "random":
        return layers.choice(stored["source"], stored["layer"], stored["sentences"], stored["pair"])
    tokens = None
    settings = {name: value for name, value in stored.items() if name not in _OWN}
    if stored["input"] == "text":
        tokens = tuple(tokenize(stored["text"], limit=LIMITS["time"]))
        settings["time"] = len(tokens)
    return Choice(MHAConfig(**settings), tokens)


def to_query(stored: dict[str, Any]) -> dict[str, str]:
    """The fields as query parameters: the sizes, and whatever is not the default."""
    query = {}
    real = stored["source"] != "random"
    for name, value in stored.items():
        if (real and name not in ("source", *_REAL)) or (not real and name in _REAL):
            continue
        if name == "text" and stored["input"] != "text":
            continue
        if (name in LIMITS and not real) or value != _DEFAULTS[name]:
            query[name] = str(int(value)) if isinstance(value, bool) else str(value)
    return query


def from_query(query: dict[str, str]) -> Parsed:
    """Query parameters as fields; what does not parse keeps its default, with a notice."""
    parsed = Parsed({})
    for name, text in query.items():
        if name not in _DEFAULTS:
            continue
        try:
            value = _parse(name, text)
            # Each value is checked alone; how they fit together is checked in the run.
            if name not in (*_OWN, "d_model", "heads"):
                MHAConfig(**{name: value})
        except (ValueError, OverflowError):
            # As code: an address may come from anyone, and Markdown would load its pictures.
            quoted = text[:60].replace("`", "'")
            parsed.notices.append(
                f"The address has `{name}={quoted}`, which cannot be used; "
                f"{name}={_DEFAULTS[name]} is shown."
            )
            continue
        parsed.values[name] = value
    return parsed


def _parse(name: str, text: str) -> Any:
    if name in LIMITS:
        number = int(text)
        if not 1 <= number <= LIMITS[name]:
            raise ConfigError(name, number, f"must be from 1 to {LIMITS[name]}")
        return number
    if name in ("seed", "layer"):
        return int(text)
    if name in ("causal", "bias"):
        return {"1": True, "0": False, "true": True, "false": False}[text.lower()] if (
            text.lower() in ("1", "0", "true", "false")
        ) else _refuse(name, text)  # fmt: skip
    if name in ("dropout", "fill"):
        return float(text)
    if name == "scale":
        return None if text == "None" else float(text)
    if name == "dtype":
        return text if text in DTYPES else _refuse(name, text)
    if name == "input":
        return text if text in ("random", "text") else _refuse(name, text)
    if name == "source":
        # No folder and no hub id: an address may come from anyone.
        return text if text in ("random", MINILM) else _refuse(name, text)
    return text


def _refuse(name: str, text: str) -> Any:
    raise ConfigError(name, text, "is not offered")


def sync_address(stored: dict[str, Any]) -> None:
    """Keeps the address a description of the view, so that copying it shares the view."""
    query = to_query(stored)
    if dict(st.query_params) != query:
        st.query_params.from_dict(query)
