"""One head's map in Plotly: exact values, tokens as typed, masked cells absent."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
import xml.etree.ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest

from mha_core import MHAConfig, maps, masks, trace_forward
from mha_core.figures.focus import cell_labels, focus_figure, focus_spec, hatch_image
from mha_core.figures.text import label
from mha_core.figures.typed import typed
from mha_core.palette import DARK, LIGHT
from tests.figures.support import ODD, array, config, traced

TIME = len(ODD)
CAUSAL = config(time=TIME, causal=True)
OPEN = config(time=TIME)


def focused(made=CAUSAL, step="softmax", *, limit=96, how="max", scale="weight", **more):
    pooled, scaled = maps.scaled(maps.head_maps(traced(made), step), limit, how, scale)
    return pooled, scaled, focus_spec(pooled, scaled, 1, **({"colours": LIGHT} | more))


def heatmaps(made):
    """(what is there, what is masked or None)."""
    found = [trace for trace in made["data"] if trace["type"] == "heatmap"]
    return found[-1], found[0] if len(found) > 1 else None


@pytest.mark.parametrize("scale", maps.SCALES)
@pytest.mark.parametrize("dark", [False, True])
def test_plotly_takes_every_scale_and_writes_valid_json(scale, dark):
    _, _, made = focused(scale=scale, tokens=ODD, colours=DARK if dark else LIGHT)
    told = json.dumps(json.loads(go.Figure(made).to_json()), allow_nan=False)
    assert "NaN" not in told


@pytest.mark.parametrize(
    ("made", "step", "more"),
    [
        (OPEN, "scores", {}),
        (CAUSAL, "mask", {}),
        (CAUSAL, "softmax", {"limit": 4}),
        (CAUSAL, "softmax", {"limit": 5, "how": "mean", "tokens": ODD}),
        (config(time=1), "softmax", {}),
        (MHAConfig(time=130), "softmax", {"tokens": tuple(map(str, range(130)))}),
        (MHAConfig(time=130), "softmax", {"width": 300}),
    ],
)
def test_plotly_takes_maps_of_every_kind(made, step, more):
    pooled, scaled, drawn = focused(made, step, **more)
    json.dumps(json.loads(go.Figure(drawn).to_json()), allow_nan=False)
    json.dumps(drawn, allow_nan=False)
    there, _ = heatmaps(drawn)
    np.testing.assert_array_equal(array(there["z"]), scaled.values[1])
    assert array(there["z"]).shape == pooled.values[1].shape


def test_the_figure_is_the_specification_validated():
    pooled, scaled, made = focused(tokens=ODD)
    assert focus_figure(pooled, scaled, 1, colours=LIGHT, tokens=ODD) == go.Figure(made)


@pytest.mark.parametrize("made", [CAUSAL, OPEN])
def test_the_values_are_the_float32_weights_and_nothing_where_masked(made):
    trace, (_, _, drawn) = traced(made), focused(made)
    there, gone = heatmaps(drawn)
    z, weights = array(there["z"]), trace.weights[0, 1].numpy()
    assert z.dtype == np.float32
    later = np.triu(np.ones((TIME, TIME), dtype=bool), 1)
    masked = later if made.causal else np.zeros_like(later)
    np.testing.assert_array_equal(np.isnan(z), masked)
    np.testing.assert_array_equal(z[~masked], weights[~masked])
    assert there["hoverongaps"] is False
    if not made.causal:
        assert gone is None
        assert drawn["layout"]["images"] == []
        return
    # oss-aspen/8Knot#561: under the pointer a masked cell is "masked", not NaN.
    assert gone["hovertemplate"].split("<br>")[1].startswith("masked")
    assert "%{z" not in gone["hovertemplate"]
    np.testing.assert_array_equal(~np.isnan(array(gone["z"])), masked)
    assert {colour for _, colour in gone["colorscale"]} == {"rgba(0,0,0,0)"}
    assert len(drawn["layout"]["images"]) == 1


def test_a_query_that_sees_no_key_is_masked_from_end_to_end():
    blind = masks.padding([0, TIME], TIME)
    trace = trace_forward(OPEN, mask=blind, profile=False)
    pooled, scaled = maps.scaled(maps.head_maps(trace), 96)
    made = focus_spec(pooled, scaled, 0, colours=LIGHT)
    json.dumps(json.loads(go.Figure(made).to_json()), allow_nan=False)
    there, gone = heatmaps(made)
    assert np.isnan(array(there["z"])).all()
    assert not np.isnan(array(gone["z"])).any()


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize(("step", "diverging"), [("softmax", False), ("mask", True)])
def test_the_colours_are_written_out_and_the_scale_is_that_of_the_data(step, diverging, colours):
    # plotly/plotly.py#1454: without a colour scale the theme chooses one.
    _, scaled, made = focused(step=step, colours=colours)
    there, _ = heatmaps(made)
    anchors = colours.diverging if diverging else colours.sequential
    stops = there["colorscale"]
    assert [colour for _, colour in stops] == list(anchors)
    assert (stops[0][0], stops[-1][0]) == (0, 1)
    assert (there["zmin"], there["zmax"]) == (scaled.low[1], scaled.high[1])
    assert (there["zmin"] == -there["zmax"]) == diverging
    assert there["colorbar"]["title"]["text"].startswith(scaled.title)
    assert ("clipped" in there["colorbar"]["title"]["text"]) == scaled.clipped


def axes(made):
    layout = made["layout"]
    return [layout[name] for name in ("xaxis", "yaxis", "xaxis2", "yaxis2")]


def test_every_token_has_a_cell_and_a_label_as_typed():
    _, _, made = focused(tokens=ODD)
    for axis in axes(made):
        assert axis["tickmode"] == "array"
        assert axis["tickvals"] == list(range(TIME))
        assert axis["ticktext"] == [label(token) for token in ODD]
        assert all(text.strip() for text in axis["ticktext"])
        # Plotly reads tags in labels: none is left.
        assert not any("<" in text or ">" in text for text in axis["ticktext"])
    shown = [html.unescape(text) for text in axes(made)[2]["ticktext"]]
    assert shown[:5] == ["the", "the", "7", "2024-01-02", "<b>x</b>"]
    assert shown[8:10] == ["–", "3–5"]


def test_the_query_is_on_y_from_the_top_and_the_key_on_x():
    _, _, made = focused()
    x, y, x2, y2 = axes(made)
    for across in (x, x2):
        assert across["range"] == [-0.5, TIME - 0.5]
    for down in (y, y2):
        assert down["range"] == [TIME - 0.5, -0.5]
    assert (x2["title"]["text"], y2["title"]["text"]) == ("key", "query")
    there, _ = heatmaps(made)
    assert "query %{y} → key %{x}" in there["hovertemplate"]


def test_cells_are_square_in_the_figure():
    for more in ({}, {"tokens": ODD}, {"width": 300}):
        layout = focused(**more)[2]["layout"]
        margin = layout["margin"]
        across = layout["width"] - margin["l"] - margin["r"]
        down = layout["height"] - margin["t"] - margin["b"]
        assert across == down > 0


def test_many_tokens_are_labelled_here_and_there_and_all_of_them_in_the_hover():
    made = MHAConfig(time=90)
    tokens = tuple(f"a–{n}" for n in range(90))
    _, _, drawn = focused(made, tokens=tokens)
    x, _, x2, _ = axes(drawn)
    assert x["ticktext"] == list(tokens)
    assert 1 < len(x2["tickvals"]) < 41
    assert x2["ticktext"] == [tokens[n] for n in x2["tickvals"]]


def test_pooled_cells_are_labelled_by_the_positions_they_hold():
    made = MHAConfig(time=130)
    pooled, _, drawn = focused(made, limit=65, tokens=("–",) * 130)
    assert pooled.factor == 2
    x, _, x2, _ = axes(drawn)
    assert x["ticktext"] == [f"{n}–{n + 1}" for n in range(0, 130, 2)]
    assert x2["ticktext"] == [str(2 * n) for n in x2["tickvals"]]
    assert "max weight" in heatmaps(drawn)[0]["hovertemplate"].replace("<b>", "")
    pooled, _, _ = focused(made, limit=44)
    assert cell_labels(pooled, None)[-1] == "129"  # the last cell holds one
    assert cell_labels(pooled, None)[0] == "0–2"


def test_a_second_value_is_told_beside_the_first():
    head = maps.head_maps(traced(CAUSAL))
    ratio = maps.pool(maps.relative_to_uniform(head), 96).values[1]
    _, _, made = focused(beside=("× uniform", ratio), name="weight")
    there, _ = heatmaps(made)
    np.testing.assert_array_equal(array(there["customdata"]), ratio)
    assert "× uniform %{customdata" in there["hovertemplate"]
    assert "weight <b>%{z" in there["hovertemplate"]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_the_pattern_of_masked_cells_is_an_image_that_can_be_read(colours):
    image = hatch_image(colours, 7)
    kind, _, data = image["source"].partition(",")
    assert kind.startswith("data:image/svg+xml")
    xml.etree.ElementTree.fromstring(urllib.parse.unquote(data))
    assert colours.hatch in urllib.parse.unquote(data)
    assert (image["x"], image["y"], image["sizex"], image["sizey"]) == (-0.5, -0.5, 7, 7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 1)])
def test_typed_arrays_are_written_as_plotly_itself_writes_them(dtype, shape):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)[::-1]
    figure = go.Figure(go.Scatter(x=[0], customdata=values))
    theirs = json.loads(figure.to_json())["data"][0]["customdata"]
    assert typed(values) == theirs
    assert len(base64.b64decode(theirs["bdata"])) == values.nbytes
    np.testing.assert_array_equal(array(typed(values)), values)
