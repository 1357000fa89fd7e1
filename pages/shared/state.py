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
from mha_core.models.hub import MINILM

LIMITS = {"batch": 64, "time": 32_768, "d_model": 2048, "heads": 64}
# The longest time of which every step is kept, maps and all; longer ones are for maps alone.
WHOLE = 2048

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
    "model": "",
    "download": False,
    "prefix": "",
    "answers": {},
}

# Sources that an address can name. No file, folder or hub id: an address may come from anyone.
_NAMED = ("random", MINILM, "picture")
# Fields of a real model, and all that are not of the configuration.
_REAL = ("layer", "sentences", "pair")
OWN = ("input", "text", "source", *_REAL, "model", "download", "prefix", "answers")


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


def widget(
    name: str, shown: Any, *, also: dict[str, Any] | None = None
) -> tuple[str, Callable[[], None]]:
    """Key and callback of the widget for a field; `shown` is what it shows of the value.

    What is in `also` changes with it.

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
        put({name.split("#")[0]: value} | (also or {}), echo=echo)

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


def to_query(stored: dict[str, Any]) -> dict[str, str]:
    """The fields as query parameters: the sizes, and whatever is not the default.

    None for what came in a file, or from a folder: no address can carry it.
    """
    source = stored["source"]
    if source not in _NAMED:
        return {}
    if source == "random":
        names = [name for name in stored if name not in OWN]
        names += ["input", *(["text"] if stored["input"] == "text" else [])]
    else:
        names = ["source", "layer", *(["sentences", "pair"] if source == MINILM else [])]
    shown = [name for name in names if (name in LIMITS) or stored[name] != _DEFAULTS[name]]
    return {
        name: str(int(stored[name])) if isinstance(stored[name], bool) else str(stored[name])
        for name in shown
    }


def from_query(query: dict[str, str]) -> Parsed:
    """Query parameters as fields; what does not parse keeps its default, with a notice."""
    parsed = Parsed({})
    for name, text in query.items():
        if name not in _DEFAULTS or name in ("model", "download", "prefix", "answers"):
            continue
        try:
            value = _parse(name, text)
            # Each value is checked alone; how they fit together is checked in the run.
            if name not in (*OWN, "d_model", "heads"):
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
        return text if text in _NAMED else _refuse(name, text)
    return text


def _refuse(name: str, text: str) -> Any:
    raise ConfigError(name, text, "is not offered")


def sync_address(stored: dict[str, Any]) -> None:
    """Keeps the address a description of the view, so that copying it shares the view."""
    query = to_query(stored)
    if dict(st.query_params) != query:
        st.query_params.from_dict(query)
