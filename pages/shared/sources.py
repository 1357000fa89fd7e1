"""The stored fields as something to show: a run, or maps alone."""

from __future__ import annotations

from typing import Any

from mha_core import MHAConfig
from mha_core.inputs import tokenize
from mha_core.models.hub import MINILM
from pages.shared import layers, own_maps, own_picture, own_weights
from pages.shared.choice import Choice, Given
from pages.shared.state import LIMITS, OWN

SOURCES = {
    "random": "random weights",
    MINILM: "MiniLM-L6: a real model",
    "picture": "DINOv2-small on a picture",
    "weights": "your weights",
    "maps": "your attention maps",
    layers.OTHER: "another model",
}


def choice(stored: dict[str, Any]) -> Choice | Given:
    """What the fields ask for.

    Raises:
        ConfigError: naming the field at fault.
        uploads.Waiting: something is still to be given.
    """
    match stored["source"]:
        case "picture":
            return own_picture.choice(stored)
        case "weights":
            return own_weights.choice(stored)
        case "maps":
            return own_maps.choice(stored)
        case "random":
            return _random(stored)
    return layers.choice(stored)


def _random(stored: dict[str, Any]) -> Choice:
    tokens = None
    settings = {name: value for name, value in stored.items() if name not in OWN}
    if stored["input"] == "text":
        tokens = tuple(tokenize(stored["text"], limit=LIMITS["time"]))
        settings["time"] = len(tokens)
    return Choice(MHAConfig(**settings), tokens)
