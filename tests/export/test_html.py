"""HTML: opens offline, says what was typed, and never says NaN."""

import base64
import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from mha_core import trace_forward
from mha_core.export import FORMATS, Selection, html_maps
from mha_core.export.panels import panel
from mha_core.export.selection import make_job
from mha_core.palette import palette
from tests.export.support import ODD, TIME, config, overflowing, traced


class Outside(HTMLParser):
    """Collects what a browser would fetch, and the text outside scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "data", "srcset", "action", "poster"):
                self.fetched.append(f"{tag} {value}")


@cache
def build(selection: Selection | None = None, **arguments: Any) -> str:
    return FORMATS["html"].build(traced(), selection, **arguments).decode()


def figures(page: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """The (data, layout) of every Plotly figure in the page, as a browser would parse them."""
    decode = json.JSONDecoder()
    found = []
    page = page[page.index("<main>") :]  # past plotly.js
    for match in re.finditer(r'Plotly\.newPlot\(\s*"maps-\d+",\s*', page):
        data, end = decode.raw_decode(page, match.end())
        layout, _end = decode.raw_decode(page, page.index("{", end))
        found.append((data, layout))
    return found


def numbers(field: Any) -> np.ndarray:
    """A Plotly array field: typed and base64, with its shape as text."""
    shape = tuple(int(side) for side in field["shape"].split(","))
    return np.frombuffer(base64.b64decode(field["bdata"]), dtype=field["dtype"]).reshape(shape)


def figure(trace: Any, step: str, limit: int = 128, **arguments: Any) -> Any:
    name = {"softmax": "weights", "mask": "masked"}[step]
    job = make_job(trace, Selection((name,)), **arguments)
    return html_maps.figure(panel(job, name, step, 0, limit=limit), job.labels, palette(job.mode))


def test_the_page_fetches_nothing() -> None:
    parser = Outside()
    parser.feed(build(tokens=ODD))
    assert parser.fetched == []
    assert "link" not in parser.tags
    assert parser.tags.count("script") >= 2
    assert "@import" not in build().split("<script", 1)[0]


def test_weights_are_in_the_page_to_the_last_bit() -> None:
    found = figures(build())
    assert len(found) == 2
    for item, (data, _layout) in enumerate(found):
        maps = [trace for trace in data if "weight" in trace.get("hovertemplate", "")]
        assert len(maps) == 5
        for head, trace in enumerate(maps):
            shown = numbers(trace["z"])
            exact = traced().weights[item, head].numpy()
            seen = np.tril(np.ones((TIME, TIME), dtype=bool))
            assert (shown[seen] == exact[seen]).all()
            assert np.isnan(shown[~seen]).all()


def test_masked_cells_say_so_when_hovered() -> None:
    data, _layout = figures(build(Selection(("masked",), (0,), (0,))))[0]
    said = [trace for trace in data if "masked" in trace.get("hovertemplate", "")]
    assert len(said) == 1
    cells = ~np.isnan(numbers(said[0]["z"]))
    assert (cells == np.triu(np.ones((TIME, TIME), dtype=bool), 1)).all()
    # Where the numbers have a gap, the gap itself must not answer.
    assert all(trace["hoverongaps"] is False for trace in data)
    assert not any("NaN" in trace.get("hovertemplate", "") for trace in data)


def test_without_a_mask_nothing_is_masked() -> None:
    data, layout = figures(FORMATS["html"].build(traced(causal=False)).decode())[0]
    assert not any("masked" in trace["hovertemplate"] for trace in data)
    assert "images" not in layout


@pytest.mark.parametrize("token", ["</script><script>alert(1)</script>", "<img src=x onerror=a>"])
def test_markup_in_a_token_stays_text(token: str) -> None:
    page = build(tokens=(token, *"abcdef"))
    assert token not in page
    parser = Outside()
    parser.feed(page)
    assert "img" not in parser.tags
    data, layout = figures(page)[0]
    escaped = token.replace("<", "&lt;").replace(">", "&gt;")
    assert data[0]["x"][0] == f"0 · {escaped}"
    assert all("<" not in text for text in layout["xaxis"]["ticktext"])


def test_labels_are_positions_with_text() -> None:
    words = ["the", "the", "12", "2021-01-01", "&amp;", "$x$", ""]
    data, layout = figures(build(tokens=tuple(words)))[0]
    assert len(set(data[0]["x"])) == TIME
    assert layout["xaxis"]["type"] == "category"
    assert layout["xaxis"]["ticktext"] == [
        "the",
        "the",
        "12",
        "2021-01-01",
        "&amp;amp;",
        "$x$",
        "∅",
    ]


def test_query_is_on_y_from_the_top_and_key_on_x() -> None:
    _data, layout = figures(build())[0]
    assert layout["yaxis"]["autorange"] == "reversed"
    assert layout["yaxis"]["title"]["text"] == "query"
    assert {axis["title"]["text"] for name, axis in layout.items() if "xaxis" in name} == {
        "",
        "key",
    }


def test_cells_are_square() -> None:
    _data, layout = figures(build())[0]
    wide = layout["width"] - layout["margin"]["l"] - layout["margin"]["r"]
    high = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    across = layout["xaxis"]["domain"][1] - layout["xaxis"]["domain"][0]
    down = layout["yaxis"]["domain"][1] - layout["yaxis"]["domain"][0]
    assert wide * across == pytest.approx(high * down, rel=1e-6)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_are_written_out(mode: str) -> None:
    data, layout = figures(build(mode=mode))[0]
    colours = palette(mode)
    maps = [trace for trace in data if "weight" in trace.get("hovertemplate", "")]
    for trace in maps:
        assert [stop[1] for stop in trace["colorscale"]] == list(colours.sequential)
        assert (trace["zmin"], trace["zmax"]) == (0.0, 1.0)
    assert layout["paper_bgcolor"] == colours.background


def test_hovering_gives_the_weight_whatever_the_scale_colours() -> None:
    weights = traced().weights[0, 1].numpy()
    seen = np.tril(np.ones((TIME, TIME), dtype=bool))
    for scale in ("× uniform", "log"):
        drawn = figure(traced(), "softmax", scale=scale)
        trace = [part for part in drawn.data if "weight" in (part.hovertemplate or "")][1]
        assert "%{customdata:.9~g}" in trace.hovertemplate
        assert (np.asarray(trace.customdata)[seen] == weights[seen]).all()
        assert (np.asarray(trace.z)[seen] != weights[seen]).any()


def test_a_large_map_is_pooled_and_says_so() -> None:
    trace = trace_forward(config(batch=1, time=300, causal=False), profile=False)
    page = FORMATS["html"].build(trace).decode()
    assert "300 × 300 pooled 3 × 3 to 100 × 100: the max of each block" in page
    data, layout = figures(page)[0]
    blocks = trace.weights[0, 0].reshape(100, 3, 100, 3).amax((1, 3)).numpy()
    assert (numbers(data[0]["z"]) == blocks).all()
    assert data[0]["y"][1] == "3–5"
    assert "max weight" in data[0]["hovertemplate"]
    assert layout["xaxis"]["ticktext"][:2] == ["0", "50"]
    assert data[0]["x"][layout["xaxis"]["tickvals"][1]] == "48–50"


def test_what_is_not_a_number_says_so_in_words() -> None:
    drawn = figure(overflowing(), "softmax")
    assert any("not a number" in (part.hovertemplate or "") for part in drawn.data)


def test_equal_exports_are_equal_bytes() -> None:
    assert FORMATS["html"].build(traced(), tokens=ODD).decode() == build(tokens=ODD)
