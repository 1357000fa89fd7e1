"""What the tests of the figures share: flows as specifications, and readers of what is in them."""

from __future__ import annotations

import base64
import html.parser
import re
from functools import cache
from typing import Any

import numpy as np
import torch

from mha_core import MHAConfig, Trace, flow, trace_forward
from mha_core.figures.flow import flow_spec
from mha_core.inputs import text_input
from mha_core.palette import DARK, LIGHT
from mha_core.window import Element, window
from tests.core.support import SIZES
from tests.flow.support import whole

# Repeated, number-like, date-like, markup, quotes, entities, dashes, nothing, and blanks.
ODD = (
    "the", "the", "7", "2024-01-02", "<b>x</b>", '"><script>alert(1)</script>', "a&amp;b",
    "it's", "–", "3–5", "", " ", "\n", "$x$", "%{x}",
)  # fmt: skip


def config(**changes: Any) -> MHAConfig:
    """The odd sizes in float32, as on the page."""
    return MHAConfig(**(SIZES | changes))


@cache
def traced(made: MHAConfig, tokens: tuple[str, ...] | None = None) -> Trace:
    """Made once for each configuration; no test changes a trace."""
    return trace_forward(made, x=None if tokens is None else text_input(made, tokens))


FLOWS = {
    "default": MHAConfig(),
    "causal": config(causal=True),
    "without bias": config(bias=False),
    "dropout": config(dropout=0.3, causal=True),
    "one of everything": config(batch=1, time=1, d_model=1, heads=1),
    "one head": config(heads=1),
    "nine heads": config(heads=9, d_model=36),
    "one column a head": config(heads=21),
    "windowed": MHAConfig(batch=5, time=70, d_model=520, heads=20, causal=True),
    "bfloat16": config(dtype="bfloat16", causal=True, scale=0.5),
    "words": config(time=15, causal=True),
}


@cache
def spec(name: str = "default", **how: Any) -> dict[str, Any]:
    """The flow of one of FLOWS, following its last element."""
    made = FLOWS[name]
    element = how.pop("element", Element(made.batch - 1, made.time - 1, made.d_model - 1))
    win = whole(made) if how.pop("whole", False) else window(made, element)
    trace = traced(made, ODD if name == "words" else None)
    how["colours"] = DARK if how.pop("dark", False) else LIGHT
    found = flow.scenes(trace, element, win)
    return flow_spec(found, element, win, config=made, **how)


def array(typed: Any) -> np.ndarray:
    """The numbers of Plotly's typed array, or of a plain list."""
    if not isinstance(typed, dict):
        return np.asarray(typed)
    found = np.frombuffer(base64.b64decode(typed["bdata"]), dtype=np.dtype(typed["dtype"]))
    shape = [int(size) for size in typed["shape"].split(",")] if "shape" in typed else -1
    return found.reshape(shape)


def trace_of(made: dict[str, Any], name: str, *steps: str) -> dict[str, Any]:
    """The trace called `name`: as the figure opens, or after the frames of the steps named."""
    at = [trace.get("name") for trace in made["data"]].index(name)
    found = made["data"][at]
    for step in steps:
        frame = next(frame for frame in made["frames"] if frame["name"] == step)
        found = _set(found, frame["data"][frame["traces"].index(at)])
    return found


def _set(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """As Plotly sets a frame: what it does not name stays; arrays are replaced whole."""
    both = dict(old)
    for key, value in new.items():
        inner = isinstance(value, dict) and "bdata" not in value
        both[key] = _set(both.get(key) or {}, value) if inner else value
    return both


def pixels(trace: dict[str, Any]) -> np.ndarray:
    """(n, 2): where the marks of a trace are, in pixels."""
    return np.stack([array(trace["x"]), array(trace["y"])], axis=-1).reshape(-1, 2) / 10


def said(made: dict[str, Any], step: str) -> str:
    """All words of a scene, without markup."""
    return "\n".join(re.sub(r"<[^>]*>", "", text) for text in trace_of(made, "words", step)["text"])


class Tree(html.parser.HTMLParser):
    """The elements of a piece of HTML: (tag, attributes, text inside), and whether they close."""

    VOID = ("img", "br", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str], list[str]]] = []
        self.open: list[tuple[str, dict[str, str], list[str]]] = []
        self.balanced = True
        self.feed(text)
        self.close()
        self.balanced &= not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        names = [name for name, _ in attrs]
        self.balanced &= len(names) == len(set(names))
        element = (tag, dict(attrs), [])
        self.found.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        self.balanced &= bool(self.open) and self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, _, text in self.open:
            text.append(data)

    def all(self, tag: str, **wanted: str) -> list[tuple[dict[str, str], str]]:
        """Attributes and text of every element with this tag and these classes or attributes."""
        return [
            (attributes, "".join(text))
            for name, attributes, text in self.found
            if name == tag
            and all(value in attributes.get(key, "").split() for key, value in wanted.items())
        ]


def overflowing() -> Trace:
    """Queries and keys of 300 in float16: their products pass what it holds."""
    made = MHAConfig(batch=1, time=5, d_model=64, heads=1, dtype="float16")
    trace = trace_forward(made, profile=False)
    module = trace.module
    with torch.no_grad():
        for layer in (module.W_q, module.W_k):
            layer.weight.copy_(torch.eye(64))
            layer.bias.zero_()
    return trace_forward(made, module, torch.full((1, 5, 64), 300.0, dtype=torch.float16))
