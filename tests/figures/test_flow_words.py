"""The words of the flow: shapes, strides, what moved, and the numbers under the pointer."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mha_core.errors import human_bytes
from tests.figures.support import FLOWS, array, said, spec, trace_of, traced
from tests.figures.test_flow_layout import MAPS, STILL, steps_of

NAMES = [name for name in FLOWS if name != "words"]
every_flow = pytest.mark.parametrize("name", NAMES)


@every_flow
@pytest.mark.parametrize("width", [340, 1040])
def test_every_scene_says_its_operation_its_shape_and_what_moved(name, width):
    made, trace = spec(name, width=width), traced(FLOWS[name])
    for step in steps_of(made):
        record, text = trace[step], said(made, step)
        assert record.number in text
        assert record.spec.operation in text
        assert f"({', '.join(record.spec.output)})" in text
        assert str(record.shape) in text
        if record.view_of is not None:
            assert "no bytes moved" in text
            assert "copied" not in text
        elif record.storage == "copy":
            assert f"copied {human_bytes(record.copied)}" in text
            assert record.copied == record.nbytes
        else:
            assert human_bytes(record.nbytes) in text
            assert "no bytes moved" not in text
            if record.copied and step != "input":
                assert f"copied {human_bytes(record.copied)}" in text


@every_flow
def test_a_wide_scene_says_the_strides_and_how_a_move_changed_them(name):
    made, trace = spec(name, width=1040), traced(FLOWS[name])
    steps = steps_of(made)
    for before, step in zip([None, *steps], steps, strict=False):
        text = said(made, step)
        assert f"{trace[step].strides}" in text
        if step in ("split_q", "transpose_q", "transpose_back", "merge"):
            assert f"strides {trace[before].strides} → {trace[step].strides}" in text


@pytest.mark.parametrize(
    ("name", "copies"),
    [("default", True), ("one head", False), ("one of everything", False), ("nine heads", True)],
)
def test_merge_copies_only_where_heads_and_positions_are_several(name, copies):
    text = said(spec(name), "merge")
    config = FLOWS[name]
    size = 4 * config.batch * config.time * config.d_model
    assert (f"copied {human_bytes(size)}" in text) == copies
    assert ("no bytes moved" in text) != copies


@every_flow
@pytest.mark.parametrize("width", [340, 1040])
def test_the_followed_element_is_told_with_its_value_and_its_place_in_memory(name, width):
    made, trace, config = spec(name, width=width), traced(FLOWS[name]), FLOWS[name]
    b, t, c = config.batch - 1, config.time - 1, config.d_model - 1
    head, j = c // config.d_k, c % config.d_k
    places = {"input": (b, t, c), "split_q": (b, t, head, j), "transpose_q": (b, head, t, j),
              "scores": (b, head, t, 0), "merge": (b, t, c), "output": (b, t, c)}  # fmt: skip
    for step, place in places.items():
        text = said(made, step)
        assert f"[{', '.join(map(str, place))}]" in text
        offset = int(np.dot(place, trace[step].strides)) + trace[step].offset
        assert f"offset {offset:,}" in text
        (told,) = re.search(r"\] = (\S+)", text).groups()
        value = float(trace.tensor(step)[place])
        assert float(told.replace("−", "-")) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(("name", "bias"), [("default", True), ("without bias", False)])
def test_a_sum_with_a_bias_says_so(name, bias):
    made = spec(name)
    assert ("+ bias" in said(made, "project_q")) == bias
    assert ("+ bias" in said(made, "output")) == bias
    assert "+ bias" not in said(made, "scores")


@every_flow
def test_words_come_with_a_place_a_size_and_a_colour_each(name):
    made = spec(name)
    for step in steps_of(made):
        words = trace_of(made, "words", step)
        counts = {len(array(words[axis])) for axis in "xy"}
        counts |= {len(words["textfont"][key]) for key in ("size", "color")}
        counts |= {len(words["text"]), len(words["textposition"])}
        assert len(counts) == 1
        assert all(words["text"])


@pytest.mark.parametrize("name", ["default", "windowed"])
def test_axis_names_and_sizes_have_the_tint_of_their_axis(name):
    for step in ("split_q", "transpose_q", "scores", "merge"):
        record = traced(FLOWS[name])[step]
        marked = "".join(trace_of(spec(name), "words", step)["text"])
        tints = dict(re.findall(r'<span style="color:(#\w+)">(\w+)</span>', marked))
        shown = re.findall(r'<span style="color:(#\w+)">(\w+)</span>', marked)
        by_name = {text: colour for colour, text in shown if not text.isdigit()}
        for axis, size in zip(record.spec.output, record.shape, strict=True):
            assert (by_name[axis], str(size)) in shown
        assert len(tints) == len(set(record.spec.output) | set(by_name))


def test_blocks_are_named_by_the_heads_or_positions_drawn():
    made = spec("windowed")
    rows = array(trace_of(made, "elements")["customdata"])
    texts = said(made, "transpose_q").split("\n")
    for head in set(rows[:, 2].tolist()):
        assert any(text in (f"head {head}", f"h {head}") for text in texts)
    texts = said(made, "split_q").split("\n")
    for t in set(rows[:, 1].tolist()):
        assert f"t {t}" in texts
    for b in set(rows[:, 0].tolist()):
        assert f"b {b}" in texts


def test_what_is_left_out_is_marked_and_nothing_else_is():
    assert "…" in said(spec("windowed"), "transpose_q")
    assert "⋮" in said(spec("windowed"), "transpose_q")
    for step in steps_of(spec("default")):
        assert "…" not in said(spec("default"), step)
        assert "⋮" not in said(spec("default"), step)


def filled(template, numbers, text):
    """A hover template with its numbers in place."""
    shown = re.sub(r"%\{customdata\[(\d)\]\}", lambda m: str(int(numbers[int(m[1])])), template)
    shown = re.sub(r"%\{text(?::([^}]*))?\}", lambda m: format(text, m[1] or ""), shown)
    return shown.removesuffix("<extra></extra>")


@every_flow
def test_the_pointer_on_an_element_reads_its_index_and_its_value(name):
    made, trace = spec(name), traced(FLOWS[name])
    rows = array(trace_of(made, "elements")["customdata"])
    for step in STILL:
        drawn = trace_of(made, "elements", step)
        tensor = trace.tensor(step).float()
        rank = {
            3: (0, 1, 4),
            4: (0, 1, 2, 3) if "back" in step or "split" in step else (0, 2, 1, 3),
        }
        for row, value in list(zip(rows, array(drawn["text"]), strict=True))[::17]:
            shown = filled(drawn["hovertemplate"], row, float(value))
            place = tuple(int(row[n]) for n in rank[tensor.dim()])
            assert shown.endswith(f"[{', '.join(map(str, place))}] = {float(tensor[place]):.4g}")


@every_flow
def test_the_pointer_on_a_map_reads_its_index_and_its_value(name):
    made, trace = spec(name), traced(FLOWS[name])
    template = trace_of(made, "map")["hovertemplate"]
    for step in MAPS:
        if step not in trace:
            continue
        drawn, tensor = trace_of(made, "map", step), trace.tensor(step).float()
        rows = array(drawn["customdata"])
        for row, text in list(zip(rows, drawn["text"], strict=True))[::7]:
            place = tuple(row.tolist())
            shown = filled(template, row, text)
            assert shown.startswith(f"[{', '.join(map(str, place))}] = ")
            value = text.removesuffix(" (masked)").replace("−", "-").replace("∞", "inf")
            assert float(value) == pytest.approx(float(tensor[place]), rel=1e-3)
