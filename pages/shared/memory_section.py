"""The memory of every step: a table, one step's figure, its neighbours, and what ran."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

import streamlit as st

from mha_core import Trace, memory
from mha_core.figures import memory_words as words
from mha_core.figures.memory_layout import NARROW, Picture, picture, sheet, skips, with_key
from mha_core.figures.memory_paint import Marks, alt, marks
from mha_core.figures.memory_svg import svg
from mha_core.figures.memory_table import memory_table, summary
from mha_core.palette import Palette
from mha_core.steps import FLAT, MAP
from mha_core.window import Element, window
from pages.shared import look
from pages.shared.followed import follow, followed
from pages.shared.glance import chosen_step

MARKS = {"wide": 400, "narrow": 110}  # elements drawn, by the width of the page

_figure = st.components.v2.component(
    "shape_of_attention_memory", js=look.asset("memory.js"), isolate_styles=False
)


@dataclass(frozen=True)
class View:
    """What the page shows of a trace.

    Attributes:
        trace: what ran.
        element, key: the one followed; of a map, the key of its row.
        stops: it at every step.
        stop: it at the chosen step.
        picture, made: the figure of that step.
        alt: the figure in a sentence.
        beside, along: the neighbours in memory, and those in the tensor.
        colours: of the ground.
    """

    trace: Trace
    element: Element
    key: int
    stops: list[memory.Stop]
    stop: memory.Stop
    picture: Picture
    made: Marks
    alt: str
    beside: list[memory.InMemory]
    along: list[memory.InTensor]
    colours: Palette


def view(trace: Trace, width: int) -> View:
    """The chosen step and element of a trace."""
    config = trace.config
    element = followed(config)
    key = min(st.session_state.get("memory_key", 0), config.time - 1)
    stops = memory.journey(trace, element, key)
    stop = next(one for one in stops if one.step.id == chosen_step(trace))
    marked = MARKS["wide" if width >= NARROW else "narrow"]
    win = with_key(window(config, element, marks=marked), key)
    drawn = picture(stop.step, win, config.d_k, sheet(trace.steps, win, config.d_k, width))
    tensor = trace.tensor(stop.step.id)
    beside = memory.in_memory(tensor, stop.place)
    along = memory.in_tensor(tensor, stop.place)
    colours = look.colours()
    made = marks(drawn, stop.place, beside, along, stored=memory.stored(tensor), colours=colours)
    said = alt(drawn, stop.place)
    return View(trace, element, key, stops, stop, drawn, made, said, beside, along, colours)


def table(shown: View) -> None:
    """Every step; choosing a row, or q, k or v in it, shows its figure."""
    steps = [stop.step for stop in shown.stops]
    content = look.heading("Every step in memory", summary(steps)) + memory_table(
        shown.stops, picked=shown.stop.step.id, colours=shown.colours
    )
    look.clickable(look.block(content), key="memory_table", on_pick=_choose)


def figure(shown: View) -> None:
    """Index space and storage, the walk, the neighbours, what ran."""
    stop, config, c = shown.stop, shown.trace.config, shown.colours
    drawn = shown.picture
    step = stop.step
    sides = memory.operands(shown.trace, step.id) if step.id in memory.PRODUCTS else ()
    below = words.neighbours(stop, shown.beside, shown.along, c) + words.what_ran(step, sides)
    content = {
        "title": f"{step.number} · {step.spec.operation}",
        "svg": svg(drawn, shown.made, alt=shown.alt, colours=c),
        "say": words.element(stop),
        "walk": words.walk(step),
        "below": below,
        "index": drawn.drawn.index.ravel().tolist(),
        "offset": drawn.drawn.offset.tolist(),
        "space": drawn.index_xy.round(1).ravel().tolist(),
        "storage": drawn.storage_xy.round(1).ravel().tolist(),
        "skips": [int(skip) for skip in skips(drawn)],
        "side": round(drawn.cell, 1),
        "element": {"b": shown.element.b, "t": shown.element.t, "c": shown.element.c,
                    "key": shown.key},
        "sizes": {"b": config.batch, "t": config.time, "c": config.d_model, "key": config.time},
        "map": drawn.drawn.axes == MAP,
    }  # fmt: skip
    rev = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    _figure(
        key="memory_figure",
        data=content | {"rev": rev},
        on_picked_change=partial(_pick, drawn.drawn.axes, config.d_k, shown.element),
        on_typed_change=_typed,
    )


def refusal(trace: Trace) -> None:
    """Calls made now: what each does to memory, and the one that torch refuses."""
    made = memory.calls(trace)
    step = trace["transpose_back"]
    config = trace.config
    rule = memory.view_strides(
        step.shape, step.strides, (config.batch, config.time, config.d_model)
    )
    st.html(
        look.block(
            look.heading("Called just now", "on the tensors of this run")
            + words.call_table(made)
            + look.heading("view after transpose, without contiguous", "torch's own words")
            + words.refused(made[-1], rule, step, FLAT, step.nbytes)
        )
    )


def home_link(shown: View) -> None:
    """To the chosen step on the home page, in the same session."""
    step = shown.stop.step
    st.page_link(
        "app.py",
        label=f"Step {step.number}, {look.safe(step.spec.operation)}, in the pipeline",
        icon=":material/arrow_back:",
    )


def _choose(step: str) -> None:
    st.session_state["step"] = step


def _pick(axes: tuple[str, ...], d_k: int, element: Element) -> None:
    """Follows the element that was clicked: its index in the tensor comes as one text."""
    value = st.session_state["memory_figure"].get("picked")
    if value is None:
        return
    index = [int(part) for part in str(value).split(",")]
    place = dict(zip(axes[:-1], index[:-1], strict=True))
    last = index[-1]
    if axes == MAP:
        st.session_state["memory_key"] = last
        last = element.c % d_k
    c = last if axes == FLAT else place["h"] * d_k + last
    follow(Element(place["batch"], place["time"], c))


def _typed() -> None:
    """Follows the element whose b, t, c and key were typed."""
    value = st.session_state["memory_figure"].get("typed")
    if value is not None:
        b, t, c, key = (int(part) for part in str(value).split(","))
        st.session_state["memory_key"] = key
        follow(Element(b, t, c))
