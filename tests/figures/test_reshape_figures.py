"""The flow, table and errors of the reshape playground: valid, in bounds, escaped."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from mha_core.figures.reshape_flow import flow_figure, flow_spec, scene_ids, scene_labels
from mha_core.figures.reshape_html import error_html, glance_html, lesson_html, steps_table
from mha_core.figures.reshape_layout import LANE, stage
from mha_core.figures.reshape_page import flow_page
from mha_core.figures.typed import dumps
from mha_core.palette import DARK, LIGHT
from mha_core.reshape import Flow, ReshapeError, Run, flow, plan_chain, plan_pattern, run
from mha_core.reshape.flow import colour_axis
from mha_core.reshape.marks import directions
from mha_core.reshape.presets import PRESETS
from tests.reshape.strategies import Pattern, patterns, refusal


def done_flow(pattern: str, shape: str, axes: str = "", element: int = 0) -> tuple[Run, Flow]:
    made = run(plan_pattern(pattern, shape, axes))
    return made, flow(made, element)


def array(spec: dict[str, str]) -> NDArray[Any]:
    found = np.frombuffer(base64.b64decode(spec["bdata"]), dtype=np.dtype(spec["dtype"]))
    return found.reshape([int(n) for n in spec["shape"].split(", ")]) if "shape" in spec else found


def places(frame: dict[str, Any], trace: int = 0) -> NDArray[np.float64]:
    """(n, 2) pixels of a frame's marks."""
    data = frame["data"][trace]
    return np.stack([array(data["x"]), array(data["y"])], axis=1) / 10


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("width", "colours"), [(1040, LIGHT), (340, DARK)])
def test_every_preset_is_a_valid_figure_in_its_bounds(name: str, width: int, colours: Any) -> None:
    known = PRESETS[name]
    made, found = done_flow(known.pattern, known.shape, known.axes, known.element)
    spec = flow_spec(made, found, colours=colours, colour=known.colour, width=width)
    figure = go.Figure(spec)  # Plotly's own validation
    assert "NaN" not in figure.to_json()
    assert [frame.name for frame in figure.frames] == scene_ids(found)
    height = spec["layout"]["height"]
    for frame, scene in zip(spec["frames"], found.scenes, strict=True):
        for trace in range(4):
            at = places(frame, trace)
            assert (at >= 0).all()
            assert (at[:, 0] <= width).all()
            assert (at[:, 1] <= height).all()
        told = array(frame["data"][0]["customdata"])
        assert np.array_equal(told[:, 0], found.identity)
        assert np.array_equal(told[:, 1:], scene.index)
    json.loads(dumps(spec))


@settings(max_examples=40)
@given(patterns())
def test_no_two_elements_share_a_place_and_reading_order_is_index_order(pattern: Pattern) -> None:
    made = run(plan_pattern(pattern.text, pattern.typed_shape, pattern.typed_sizes))
    found = flow(made, 0)
    spec = flow_spec(made, found, colours=LIGHT, controls=False)
    st = stage(found, 1040)
    for frame, scene in zip(spec["frames"], found.scenes, strict=True):
        at = places(frame)
        distinct = len(np.unique(scene.index, axis=0))
        assert len(np.unique(at.round(1), axis=0)) == distinct
        gaps = np.abs(at[:, None] - at[None]).max(-1)
        apart = gaps[gaps > 0.2]
        assert apart.size == 0 or apart.min() >= st.pitch - 0.3  # no overlap
        assert at[:, 1].max() < st.height - LANE + st.pitch
        if len(scene.step.shape) > 1:
            # One step along an axis moves right or down, as its direction says.
            for n, way in enumerate(directions(len(scene.step.shape))):
                order = np.argsort(scene.index[:, n], kind="stable")
                same = np.delete(scene.index, n, axis=1)
                for a, b in pairwise(order):
                    if (same[a] == same[b]).all() and scene.index[b, n] > scene.index[a, n]:
                        step = at[b] - at[a]
                        assert step[0 if way == "x" else 1] > 0
                        assert abs(step[1 if way == "x" else 0]) < 0.2


def test_one_axis_is_written_in_lines() -> None:
    made, found = done_flow("a b -> (a b)", "12, 20")
    at = places(flow_spec(made, found, colours=LIGHT, controls=False)["frames"][-1])
    order = np.argsort(found.scenes[-1].index[:, 0])
    lines = np.unique(at[:, 1])
    assert len(lines) == 5  # 240 in lines of 48
    assert np.array_equal(order, np.lexsort((at[:, 0].round(), at[:, 1].round())))


def test_followed_copies_are_all_outlined_and_start_from_one() -> None:
    made, found = done_flow("a b -> a r b", "2, 3", "r=4", element=4)
    frames = flow_spec(made, found, colours=LIGHT, controls=False)["frames"]
    assert len(np.unique(places(frames[0], 2), axis=0)) == 1
    assert len(np.unique(places(frames[-1], 2), axis=0)) == 4


def test_a_colour_belongs_to_an_index_through_all_scenes() -> None:
    known = PRESETS["split heads"]
    made, found = done_flow(known.pattern, known.shape, known.axes)
    spec = flow_spec(made, found, colours=LIGHT, colour="out1", controls=False)
    colours = np.array(spec["data"][0]["marker"]["color"])
    heads = found.scenes[-1].index[:, 1]
    last = int(found.identity.argmax())  # the strongest of its head is the head's own colour
    assert colours[last] == LIGHT.head(int(heads[last])).lower()
    assert not set(colours[heads == 0]) & set(colours[heads == 1])
    assert "color" not in spec["frames"][0]["data"][0].get("marker", {})


def test_numbers_stand_in_large_cells() -> None:
    made, found = done_flow("(d h) -> h d", "6", "h=2")
    elements = flow_spec(made, found, colours=DARK, controls=False)["data"][0]
    assert elements["text"] == [str(i) for i in found.identity]


def words(made: Run, found: Flow, n: int, **how: Any) -> str:
    spec = flow_spec(made, found, colours=LIGHT, controls=False, **how)
    return re.sub(r"<[^>]+>", "", " | ".join(spec["frames"][n]["data"][3]["text"]))


def test_words_say_what_happened_in_memory() -> None:
    known = PRESETS["merge heads"]
    made, found = done_flow(known.pattern, known.shape, known.axes, known.element)
    start, turned, merged = (words(made, found, n, colour="in1") for n in range(3))
    assert "768 B" not in start
    assert "1.5 KiB in memory" in start
    assert "strides (192, 48, 8, 1) → (192, 8, 48, 1) · no bytes moved" in turned
    assert "copied, 1.5 KiB new" in merged
    assert "element 141 = x[0, 2, 5, 5]: [0, 5, 21] · offset 181 in new memory, was 141" in merged
    assert "coloured by h: 0 1 2 3" in merged
    assert "columns d, rows t, blocks across h, blocks down b" in start


def test_labels_name_the_blocks() -> None:
    known = PRESETS["fused QKV"]
    made, found = done_flow(known.pattern, known.shape, known.axes)
    said = words(made, found, 2, colour="out0").split(" | ")
    for label in ("qkv 0", "qkv 2", "h 1", "b 1"):
        assert label in said


def test_the_rail_names_the_steps() -> None:
    made = run(plan_chain("view(2, 6, 4, 8).transpose(1, 2)", "2, 6, 32"))
    found = flow(made, 0)
    assert scene_labels(found) == ["x", "view", "transpose"]
    figure = flow_figure(made, found, colours=LIGHT)
    assert [s["label"] for s in figure.layout.sliders[0].steps] == ["x", "view", "transpose"]


def test_the_page_opens_offline_and_holds_what_ran() -> None:
    known = PRESETS["split heads"]
    made, found = done_flow(known.pattern, known.shape, known.axes)
    page = flow_page(made, found, colours=DARK, colour="out1")
    assert "b t (h d) -&gt; b h t d" in page
    assert "plotly.js v" in page[:6_000_000]
    head = page.replace(page[page.index("<script>") : page.index("</script>")], "", 1)
    assert not re.search(r'(src|href)="https?:', head)
    assert "(192, 8, 32, 1)" in page
    assert "assert torch.equal(z, y)" in page


HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("field", ["pattern", "chain", "shape", "axes"])
def test_what_was_typed_is_escaped(field: str) -> None:
    typed = {"chain": "view(6)", "shape": "6", "axes": ""} | {field: HOSTILE}
    error = refusal(
        lambda: (
            plan_pattern(HOSTILE, "6", "")
            if field == "pattern"
            else plan_chain(typed["chain"], typed["shape"], typed["axes"])
        )
    )
    assert error is not None
    shown = error_html(error)
    assert "<img" not in shown
    assert "&lt;" in shown
    assert shown.count("<mark>") == 1


def test_the_mark_is_on_the_fault() -> None:
    with pytest.raises(ReshapeError, match="not closed") as caught:
        plan_pattern("b t (h d -> b h t d", "2, 6, 32", "h=4")
    assert "b t <mark>(</mark>h d -&gt; b h t d" in error_html(caught.value)
    with pytest.raises(ReshapeError, match="no ->") as caught:
        plan_pattern("b t", "2, 6")
    assert "b t<mark>␣</mark>" in error_html(caught.value)


def test_the_table_and_the_line_hold_what_torch_said() -> None:
    known = PRESETS["grouped-query repeat"]
    made, found = done_flow(known.pattern, known.shape, known.axes, known.element)
    table = re.sub(r"<[^>]+>", " ", steps_table(made, picked=3, colours=LIGHT))
    for said in ("(60, 30, 0, 6, 1)", "copy 1.4 KiB", "clone, _unsafe_view", "new 480 B"):
        assert said in table
    line = re.sub(r"<[^>]+>", "", glance_html(made, LIGHT))
    assert "(2, 2, 5, 6)" in line
    assert "1.4 KiB allocated by them" in line
    assert "same as einops.repeat ✓" in line
    lesson = lesson_html(made, 3, found, LIGHT)
    assert "it steps 30" in lesson
    assert "y = y.reshape(2, 6, 5, 6)" in lesson


def test_colours_have_an_axis_to_stand_for() -> None:
    made, found = done_flow("a -> a", "1")
    spec = flow_spec(made, found, colours=LIGHT, colour=colour_axis(made, "in0"))
    go.Figure(spec)
