"""The head grid as it is drawn: where maps and words stand, and what the pointer reads."""

from __future__ import annotations

import html

import numpy as np
import pytest
import torch

from mha_core.figures.head_grid import head_grid
from mha_core.figures.text import label
from mha_core.maps import SCALES, head_maps, scaled
from mha_core.palette import DARK, LIGHT, palette
from tests.figures.head_grid_support import (
    BATCH,
    HEADS,
    TIME,
    TIME_K,
    axis,
    parts,
    shown,
    weights,
    words,
)
from tests.figures.support import ODD, array, config, traced


def test_queries_run_down_keys_run_right_and_cells_are_square():
    for shape, how in [
        ((12, TIME, TIME), {}),
        ((12, TIME, TIME_K), {"columns": 5}),
        ((1, 90, 90), {"tokens": ["a"] * 90}),
        ((5, 200, 90), {}),
    ]:
        maps, _, layout = parts(head_grid(weights(*shape), **how))
        margin = layout["margin"]
        wide = layout["width"] - margin["l"] - margin["r"]
        high = layout["height"] - margin["t"] - margin["b"]
        for trace in maps:
            rows, cells = array(trace["z"]).shape
            x, y = axis(layout, trace, "x"), axis(layout, trace, "y")
            assert x["range"] == [-0.5, cells - 0.5]
            assert y["range"] == [rows - 0.5, -0.5]
            cell = np.diff(x["domain"])[0] * wide / cells, np.diff(y["domain"])[0] * high / rows
            assert cell[0] == pytest.approx(cell[1], rel=0.02)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 12, 16, 17, 32, 64])
def test_no_map_or_name_lies_on_another(heads):
    maps, _, layout = parts(head_grid(weights(heads, TIME, TIME)))
    inner = layout["width"] - layout["margin"]["l"] - layout["margin"]["r"]
    boxes = []
    for head, trace in enumerate(maps):
        x, y = (axis(layout, trace, which)["domain"] for which in "xy")
        assert 0 <= x[0] < x[1] <= 1
        assert 0 <= y[0] < y[1] <= 1
        note = layout["annotations"][head + 1]
        assert (note["x"], note["y"]) == (x[0], y[1])
        text = html.unescape("".join(part.split(">")[-1] for part in note["text"].split("<")))
        assert len(text) * 6 < (x[1] - x[0]) * inner + 8
        boxes.append((*x, *y))
    for place, (left, right, low, high) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert right <= other[0] or other[1] <= left or high <= other[2] or other[3] <= low


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_heads_are_named_in_their_colour_with_their_effective_keys(mode):
    even = torch.full((2, 4, 4), 0.25)
    even[1] = torch.eye(4)
    notes = words(parts(head_grid(even, mode=mode))[2])[1:]
    colours = palette(mode)
    assert [html.unescape(note.split("</span>")[0].split(">")[-1]) for note in notes] == [
        "4.00 keys",
        "1.00 key",
    ]
    for head, note in enumerate(notes):
        assert f'<b style="color:{colours.head(head)}">head {head}</b>' in note


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_follows_the_data_and_one_bar_says_what_it_is(scale):
    trace = traced(config(time=11, causal=True))
    figure = head_grid(trace.weights, item=1, scale=scale)
    maps, gone, _ = parts(figure)
    _, known = scaled(head_maps(trace, item=1), 96, "max", scale)
    np.testing.assert_array_equal(shown(figure), known.values)
    assert [(one["zmin"], one["zmax"]) for one in maps] == list(
        zip(known.low.tolist(), known.high.tolist(), strict=True)
    )
    bars = [one["colorbar"] for one in maps if one["showscale"]]
    assert len(bars) == 1
    assert bars[0]["title"]["text"].startswith(known.title)
    assert ("clipped" in bars[0]["title"]["text"]) == known.clipped
    if scale == "per head":  # each head's scale ends elsewhere: no one number is right
        assert bars[0]["ticktext"] == ["0", "most"]
    assert len(gone) == len(maps)


@pytest.mark.parametrize("scale", SCALES)
def test_the_pointer_reads_the_weight_itself_on_every_scale(scale):
    given = weights(HEADS, TIME, TIME_K)
    for head, trace in enumerate(parts(head_grid(given, scale=scale))[0]):
        read = "z" if scale in ("weight", "per head") else "customdata"
        assert f"weight <b>%{{{read}:" in trace["hovertemplate"]
        np.testing.assert_array_equal(array(trace[read]), given[head])
        assert f"head {head}<br>query %{{y}} → key %{{x}}" in trace["hovertemplate"]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_masked_cells_are_absent_hatched_and_never_nan_under_the_pointer(colours):
    # plotly/plotly.py#4393
    given = weights(HEADS, TIME, TIME, causal=True)
    given[1, 3] = torch.nan
    figure = head_grid(given, mode=colours.mode)
    maps, gone, layout = parts(figure)
    later = np.triu(np.ones((TIME, TIME), dtype=bool), 1)
    for head, (there, absent) in enumerate(zip(maps, gone, strict=True)):
        masked = later | ((np.arange(TIME) == 3)[:, None] & (head == 1))
        np.testing.assert_array_equal(np.isnan(array(there["z"])), masked)
        np.testing.assert_array_equal(~np.isnan(array(absent["z"])), masked)
        assert there["hoverongaps"] is absent["hoverongaps"] is False
        assert "%{z" not in absent["hovertemplate"]
        assert absent["xaxis"] == there["xaxis"]
    assert len(layout["images"]) == HEADS
    assert colours.hatch.strip("#") in layout["images"][0]["source"]
    assert "1 row without a key" in words(layout)[0]
    assert layout["paper_bgcolor"] == colours.background
    assert [stop for _, stop in maps[0]["colorscale"]] == list(colours.sequential)


def test_every_token_has_one_cell_and_stands_as_typed():
    count = len(ODD)
    maps, _, layout = parts(head_grid(weights(HEADS, count, count), tokens=ODD))
    for trace in maps:
        for which in "xy":
            found = axis(layout, trace, which)
            assert found["tickvals"] == list(range(count))
            assert found["ticktext"] == [label(token) for token in ODD]
            assert found["showticklabels"]


def test_tokens_are_written_only_where_they_fit_and_are_always_under_the_pointer():
    tokens = [f"t{place}" for place in range(60)]
    maps, _, layout = parts(head_grid(weights(12, 60, 60), tokens=tokens))
    for trace in maps:
        for which, name in (("x", "key"), ("y", "query")):
            found = axis(layout, trace, which)
            assert not found["showticklabels"]
            assert found["ticktext"] == tokens
            assert found["title"]["text"] == f"{name} 0 to 59"
    _, _, layout = parts(head_grid(weights(12, 60, 60), tokens=tokens, columns=1))
    assert not layout["xaxis"]["showticklabels"]  # a map has a largest size
    _, _, layout = parts(head_grid(weights(12, 20, 20), tokens=tokens[:20]))
    assert layout["yaxis"]["showticklabels"]


def test_queries_and_keys_have_tokens_of_their_own_where_they_differ():
    # pytorch/pytorch#27461: add_bias_kv appends a key.
    names = ["a", "b", "c"]
    oblong = weights(HEADS, 3, 4)
    _, _, layout = parts(head_grid(oblong, tokens=names, key_tokens=[*names, "bias_k"]))
    assert layout["yaxis"]["ticktext"] == names
    assert layout["xaxis"]["ticktext"] == [*names, "bias_k"]
    _, _, layout = parts(head_grid(oblong, tokens=names))
    assert layout["xaxis"]["ticktext"] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("shape", "factor"), [((97, 97), 2), ((200, 3), 3), ((3, 200), 3), ((96, 500), 6)]
)
@pytest.mark.parametrize("how", ["max", "mean"])
def test_larger_maps_are_pooled_and_the_figure_says_by_how_much(shape, factor, how):
    given = weights(2, *shape)
    tokens, key_tokens = (["q"] * shape[0], [f"k{n}" for n in range(shape[1])])
    figure = head_grid(given, tokens=tokens, key_tokens=key_tokens, how=how)
    maps, _, layout = parts(figure)
    rows, cells = -(-shape[0] // factor), -(-shape[1] // factor)
    assert f"each cell the {how} of {factor} × {factor}" in words(layout)[0]
    assert f"{how} weight <b>" in maps[0]["hovertemplate"]
    reduce = np.max if how == "max" else np.mean
    expected = np.empty((2, rows, cells), dtype=np.float32)
    for head, row, cell in np.ndindex(*expected.shape):
        block = given[head, row * factor :, cell * factor :][:factor, :factor]
        expected[head, row, cell] = reduce(block.numpy())
    np.testing.assert_allclose(shown(figure), expected, rtol=1e-5)
    last = (cells - 1) * factor
    assert layout["xaxis"]["ticktext"][0] == f"0–{min(factor, shape[1]) - 1} (k0 … k{factor - 1})"
    assert layout["xaxis"]["ticktext"][-1].startswith(str(last))
    assert len(layout["yaxis"]["ticktext"]) == rows


def test_rows_that_do_not_sum_to_one_are_told_on_the_figure():
    given = weights(BATCH, HEADS, TIME, TIME)
    given[1, 2, 3] *= 0.75
    assert "1 of 15 rows do not sum to 1, by up to 0.25" in words(
        parts(head_grid(given, item=1))[2]
    )[0]  # fmt: skip
    assert "sum to 1" not in words(parts(head_grid(given, item=0))[2])[0]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("heads", "time"), [(12, 512), (12, 96), (64, 100), (144, 64)])
def test_the_figure_stays_under_two_megabytes(heads, time, scale):
    # opengeos/streamlit-map-template#11
    tokens = ["<&><&><&><&>"] * time
    figure = head_grid(weights(heads, time, time, causal=True), tokens=tokens, scale=scale)
    assert len(figure.to_json()) < 2_000_000
