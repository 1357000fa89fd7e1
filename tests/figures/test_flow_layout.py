"""Where the flow draws: reading a scene as one reads text is reading the tensor by its indices."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from mha_core.palette import DARK, LIGHT, rgb
from mha_core.steps import STEPS
from tests.figures.support import FLOWS, array, pixels, spec, trace_of, traced

every_flow = pytest.mark.parametrize("name", FLOWS)
WIDTHS = (280, 340, 560, 900, 1040, 1240)
MAPS = ("scores", "mask", "softmax")
STILL = ("input", "project_q", "split_q", "transpose_q", "weighted_values", "transpose_back",
         "merge", "output")  # fmt: skip


def order(made, step):
    """Of every mark: (batch, block, row, column), from its hover data alone."""
    if step in MAPS:
        return array(trace_of(made, "map", step)["customdata"]).T
    b, t, head, j, c = array(trace_of(made, "elements")["customdata"]).T
    axes = STEPS[step].output
    if axes == ("batch", "time", "d_model"):
        return np.stack([b, np.zeros_like(b), t, c])
    if axes == ("batch", "time", "h", "d_k"):
        return np.stack([b, t, head, j])
    return np.stack([b, head, t, j])


def steps_of(made):
    return [frame["name"] for frame in made["frames"]]


def places(made, step):
    return pixels(trace_of(made, "map" if step in MAPS else "elements", step))


def rises(keys, at):
    """Whether `at` is one number for each key, larger for every later key."""
    known = {}
    for key, value in zip(map(tuple, keys.T.tolist()), at.tolist(), strict=True):
        if known.setdefault(key, value) != value:
            return False
    values = [known[key] for key in sorted(known)]
    return all(a < b for a, b in pairwise(values))


@every_flow
def test_columns_go_right_rows_go_down_blocks_side_by_side_batch_below(name):
    made = spec(name)
    for step in steps_of(made):
        batch, block, row, column = order(made, step)
        x, y = places(made, step).T
        assert rises(np.stack([block, column]), x)
        assert rises(np.stack([batch, row]), y)


@every_flow
def test_no_two_elements_share_a_place_where_they_move(name):
    made = spec(name)
    for step in STILL:
        at = places(made, step)
        assert len(np.unique(at, axis=0)) == len(at)


def test_a_view_that_renames_axes_keeps_the_reading_order_and_a_transpose_changes_it():
    made = spec(whole=True)
    number = np.arange(len(places(made, "input")))

    def read(step):
        """Element numbers in the order in which one reads: block by block, row by row."""
        return np.lexsort(order(made, step)[::-1])

    for step in ("input", "project_q", "split_q", "transpose_back", "merge", "output"):
        np.testing.assert_array_equal(read(step), number)
    assert (read("transpose_q") != number).any()


@every_flow
def test_elements_wait_unseen_while_a_map_is_shown(name):
    made = spec(name)
    for step in steps_of(made):
        trace = trace_of(made, "elements", step)
        seen = trace["marker"]["opacity"] > 0
        assert seen == (step not in MAPS)
        assert len(pixels(trace_of(made, "map", step))) > 0 or seen
        if not seen:
            assert trace["hoverinfo"] == "skip"
            ahead = pixels(trace_of(made, "elements", "weighted_values"))
            np.testing.assert_array_equal(pixels(trace), ahead)
        else:
            assert len(pixels(trace_of(made, "map", step))) == 0


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["default", "windowed", "one of everything", "one head", "words"])
def test_no_mark_is_outside_the_figure_however_narrow(name, width):
    made = spec(name, width=width)
    layout = made["layout"]
    assert layout["width"] == width
    right, left = layout["xaxis"]["range"][1] / 10, layout["xaxis"]["range"][0]
    bottom, top = layout["yaxis"]["range"][0] / 10, layout["yaxis"]["range"][1]
    assert (left, top, right) == (0, 0, width)
    assert 0 < bottom < layout["height"]
    for step in steps_of(made):
        for label in ("elements", "map", "operands", "path", "followed", "words"):
            for x, y in pixels(trace_of(made, label, step)):
                assert 0 <= x <= right
                assert 0 <= y <= bottom


@pytest.mark.parametrize("width", WIDTHS)
def test_the_products_of_an_operand_stand_one_above_the_other(width):
    made = spec("causal", width=width)
    for step in ("project_q", "scores", "mask", "softmax", "weighted_values", "output"):
        at = pixels(trace_of(made, "operands", step))
        upper, lower = at[: len(at) // 2], at[len(at) // 2 :]
        np.testing.assert_array_equal(upper[:, 0], lower[:, 0])
        assert (np.diff(upper[:, 0]) > 0).all()
        assert (lower[:, 1] > upper[:, 1]).all()
    for step in ("input", "split_q", "transpose_q", "transpose_back", "merge"):
        assert len(pixels(trace_of(made, "operands", step))) == 0


@every_flow
def test_the_outline_is_around_the_followed_element(name):
    made, config = spec(name), FLOWS[name]
    b, t, c = config.batch - 1, config.time - 1, config.d_model - 1
    for step in steps_of(made):
        (outline,) = pixels(trace_of(made, "followed", step))
        if step in MAPS:  # the followed query, and the first key
            wanted = (b, c // config.d_k, t, 0)
            rows = array(trace_of(made, "map", step)["customdata"])
        else:
            wanted = (b, t, c // config.d_k, c % config.d_k, c)
            rows = array(trace_of(made, "elements")["customdata"])
        (at,) = np.flatnonzero((rows == wanted).all(axis=1))
        np.testing.assert_array_equal(places(made, step)[at], outline)


@every_flow
def test_the_path_leads_from_where_the_element_was_to_where_it_is(name):
    made = spec(name)
    steps = steps_of(made)
    for before, step in pairwise(steps):
        path = pixels(trace_of(made, "path", step))
        (end,) = pixels(trace_of(made, "followed", step))
        (start,) = pixels(trace_of(made, "followed", before))
        np.testing.assert_array_equal(path[-1], end)
        moves = step in ("split_q", "transpose_q", "transpose_back", "merge")
        np.testing.assert_array_equal(path[0], start if moves else end)


def colour_of(scale, code):
    """The strongest colour of the stretch of the scale that a code lies on."""
    at = [n for n, (stop, _) in enumerate(scale) if stop >= code / 255 - 1e-9]
    return scale[at[0]][1]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["default", "nine heads", "windowed", "one column a head"])
def test_a_head_has_one_colour_in_every_scene_and_x_and_y_have_none(name, dark):
    made, colours = spec(name, dark=dark), DARK if dark else LIGHT
    scale = trace_of(made, "elements")["marker"]["colorscale"]
    heads = array(trace_of(made, "elements")["customdata"])[:, 2]
    for step in STILL:
        codes = array(trace_of(made, "elements", step)["marker"]["color"])
        assert len(codes) == len(heads)
        for head, code in zip(heads.tolist(), codes.tolist(), strict=True):
            own = colours.tints["d_model"] if step in ("input", "output") else colours.head(head)
            found = colour_of(scale, code)
            # The faint end of a stretch is the head's colour mixed with the ground.
            assert found in (own, scale[[c for _, c in scale].index(own) - 1][1])
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for _, colour in scale)
    assert all(len(rgb(colour)) == 3 for _, colour in scale)


@pytest.mark.parametrize("name", ["causal", "dropout", "windowed", "bfloat16", "words"])
def test_masked_cells_look_like_no_value_and_say_so(name):
    made = spec(name)
    visible = traced(FLOWS[name]).visible.numpy() if name != "words" else None
    for step in ("mask", "softmax"):
        trace = trace_of(made, "map", step)
        _, _, query, key = array(trace["customdata"]).T
        hidden = key > query
        if visible is not None:
            np.testing.assert_array_equal(hidden, ~visible[query, key])
        codes = array(trace["marker"]["color"])
        assert len(set(codes[hidden].tolist())) == 1
        assert not set(codes[hidden]) & set(codes[~hidden])
        said = [text.endswith("(masked)") for text in trace["text"]]
        assert said == hidden.tolist()
        sizes = array(trace["marker"]["size"])
        assert sizes[hidden].max() < sizes[~hidden].min()
    assert not any("masked" in text for text in trace_of(made, "map", "scores")["text"])
