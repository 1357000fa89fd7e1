"""The mistakes in HTML: the code that ran, its numbers, its maps; nothing unescaped."""

from __future__ import annotations

import base64
import html
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from mha_core.figures.mistakes_code import code_html, diff_html
from mha_core.figures.mistakes_detail import detail_html
from mha_core.figures.mistakes_list import changed, list_html, measured
from mha_core.figures.raster import map_png
from mha_core.mistakes import GROUPS, MISTAKES, examine
from mha_core.mistakes.measures import maps_seen
from mha_core.palette import DARK, LIGHT, rgb
from tests.mistakes.support import LOUD, bench

every = pytest.mark.parametrize("name", MISTAKES)


@pytest.fixture(scope="module")
def findings():
    module, x = bench()
    return {name: examine(mistake, module, x) for name, mistake in MISTAKES.items()}


def words(markup):
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def open_one(found, head=0, **how):
    seen = maps_seen(found, head)
    return detail_html(found, seen, heads=3, colours=how.pop("colours", LIGHT), **how)


def sent_maps(markup):
    """(what the hover says, values) of every map."""
    found = re.findall(r'data-hover="([^"]*)" data-z="([^"]*)"', markup)
    return [
        (json.loads(html.unescape(about)), np.frombuffer(base64.b64decode(z), dtype="<f4"))
        for about, z in found
    ]


# --- code ----------------------------------------------------------------------------------


@every
def test_both_sources_can_be_read_off_the_listing(name):
    mistake = MISTAKES[name]
    wrong, right = mistake.code("wrong"), mistake.code("right")
    lines = re.findall(r'<span class="(\w+)">(.*?)\n</span>', diff_html(wrong, right), re.S)
    said = [(kind, re.sub(r'<b class="sr">.*?</b>', "", line)) for kind, line in lines]
    for source, other in ((wrong, "in"), (right, "out")):
        assert [words(line) for kind, line in said if kind != other] == source.splitlines()
    assert {kind for kind, _ in said} == {"both", "in", "out"}


def test_what_differs_in_a_line_is_marked_and_comments_are_quiet():
    shown = diff_html("a = f(1)  # one", "a = f(2)  # one")
    assert "a = f(<mark>1</mark>)  <i># one</i>" in shown
    assert "a = f(<mark>2</mark>)  <i># one</i>" in shown


def test_code_is_escaped():
    assert "<b>" not in code_html("x = '<b>'  # <b>")
    assert words(code_html("x = '<b>'  # <b>")).strip() == "x = '<b>'  # <b>"


# --- the table -----------------------------------------------------------------------------


def test_the_table_says_of_each_what_gives_it_away(findings):
    groups = {name: [findings[m.id] for m in group] for name, group in GROUPS.items()}
    shown = list_html(groups, "no_scale")
    rows = dict(re.findall(r'<tr data-pick="(\w+)"[^>]*>(.*?)</tr>', shown))
    assert list(rows) == list(MISTAKES)
    assert re.findall(r'data-pick="(\w+)" tabindex="0" aria-selected="true"', shown) == ["no_scale"]
    for name, row in rows.items():
        cells = [words(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        assert cells[0] == MISTAKES[name].title
        expected = "torch raises" if name in LOUD else "values only"
        assert cells[1] == ("a shape" if name == "batch_second" else expected)
        assert cells[2] == changed(findings[name])
    assert words(rows["causal_blind"]).endswith("NaN")
    apart = (findings["no_scale"].wrong.output - findings["no_scale"].right.output).abs().max()
    assert words(rows["no_scale"]).endswith(f"{float(apart):.2f}")


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0.00"), (4.3, "4.30"), (0.0123, "0.01"), (0.0042, "0.0042")]
)
def test_changes_have_two_decimals(value, shown):
    assert measured(value) == shown


# --- the open one --------------------------------------------------------------------------


@every
def test_the_open_one_has_code_numbers_check_and_sources(name, findings):
    found, mistake = findings[name], MISTAKES[name]
    said = words(open_one(found))
    for part in (mistake.title, mistake.why, mistake.sign, mistake.fix):
        assert part in said
    for line in mistake.code("check").splitlines():
        assert line in said
    assert "✗ fails on the wrong code" in said
    assert "✓ holds on the right code" in said
    for place in mistake.seen_in:
        repository, number = place.split("#")
        assert f'href="https://github.com/{repository}/issues/{number}"' in open_one(found)


@pytest.mark.parametrize("name", sorted(LOUD))
def test_a_loud_one_has_torchs_own_words_and_no_map(name, findings):
    shown = open_one(findings[name])
    module, x = bench()
    with pytest.raises(RuntimeError) as raised, torch.no_grad():  # noqa: PT011
        MISTAKES[name].wrong(module, x)
    assert f"RuntimeError: {raised.value}" in words(shown)
    assert sent_maps(shown) == []


def test_a_silent_one_has_equal_shapes_and_other_numbers(findings):
    said = open_one(findings["no_scale"])
    rows = {
        words(row[0]): (words(row[1]), words(row[2]))
        for row in re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td>', said)
    }
    assert rows["output, shape"] == ("(2, 5, 21)", "(2, 5, 21)")
    assert rows["weights, shape"] == ("(2, 3, 5, 5)", "(2, 3, 5, 5)")
    assert rows["sum of a row of weights"] == ("1.000", "1.000")
    seen = maps_seen(findings["no_scale"], 0)
    for which, weights in ((0, seen.wrong.values[0]), (1, seen.right.values[0])):
        entropy = float(-(weights * weights.log()).sum(-1).mean())
        assert rows["entropy, nats"][which] == f"{entropy:.2f}"
        keys = float((-(weights * weights.log()).sum(-1)).exp().mean())
        assert rows["effective keys"][which] == f"{keys:.2f}"


@pytest.mark.parametrize("head", [0, 2])
def test_the_maps_are_those_that_ran_and_their_difference(findings, head):
    found = findings["softmax_axis"]
    seen = maps_seen(found, head)
    maps = sent_maps(open_one(found, head))
    assert [about["name"] for about, _ in maps] == ["weight", "weight", "difference"]
    right, wrong = (
        outcome.weights[seen.item, head].float().numpy() for outcome in (found.right, found.wrong)
    )
    past = np.tril(np.ones((5, 5), dtype=bool)).ravel()
    for (_, values), expected in zip(maps, (wrong, right, wrong - right), strict=True):
        assert np.array_equal(values[past], expected.ravel()[past])
        assert np.isnan(values[~past]).all()  # hidden, with no weight: absent


def test_a_hidden_key_that_keeps_a_weight_is_shown(findings):
    maps = sent_maps(open_one(findings["causal_leak"]))
    above = np.diag_indices(4)
    wrong, right, apart = (values.reshape(5, 5)[:4, 1:][above] for _, values in maps)
    assert np.isnan(right).all()
    assert (wrong > 0).all()
    assert np.allclose(apart, wrong)  # the right weight of a hidden key is 0


def test_nan_is_told_from_masked(findings):
    maps = sent_maps(open_one(findings["causal_blind"]))
    assert "faults" not in maps[1][0]
    assert maps[0][0]["faults"] == [0, 1, 2, 3, 4]  # the whole first row
    assert maps[2][0]["faults"] == [0, 1, 2, 3, 4]
    said = words(open_one(findings["causal_blind"]))
    assert "NaN in 1 of 5 rows, else 1.000" in said
    assert "Largest change of the output NaN, of the weights NaN, over all" in said


def test_maps_of_other_sizes_have_no_difference(findings):
    shown = open_one(findings["batch_second"])
    assert len(sent_maps(shown)) == 2
    assert "No difference: 2 × 2 cells against 5 × 5" in words(shown)


def test_the_heads_to_either_side_can_be_chosen(findings):
    assert re.findall(r'data-pick="head:(\d)"', open_one(findings["no_scale"], 0)) == ["2", "1"]
    assert "head 2 of 0–2" in words(open_one(findings["no_scale"], 9))  # one that is not there


def test_tokens_label_the_axes_escaped(findings):
    shown = open_one(findings["no_scale"], tokens=("<i>", "a", "a", "", "b"))
    assert "<i></span>" not in shown
    assert sent_maps(shown)[0][0]["labels"] == ["&lt;i&gt;", "a", "a", "∅", "b"]


def test_where_nothing_changes_it_says_so():
    module, x = bench(heads=1)
    found = examine(MISTAKES["heads_from_time"], module, x)
    said = words(open_one(found))
    assert "At these sizes the wrong code gives the right numbers" in said
    assert "no change" in said


# --- the picture ---------------------------------------------------------------------------


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("side", [2, 5, 40])
def test_faults_are_painted_and_small_ones_crossed_out(colours, side):
    unit = np.full((side, side), 0.5, dtype=np.float32)
    unit[0, 1] = unit[1, 0] = np.nan
    faults = np.zeros((side, side), dtype=bool)
    faults[0, 1] = True
    png = map_png(unit, colours, diverging=False, faults=faults)
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))
    block = len(pixels) // side
    cell = pixels[:block, block : 2 * block]
    edge = block // 2, max(0, block // 8)
    assert tuple(cell[edge][:3]) == rgb(colours.bad)
    assert (pixels[block : 2 * block, :block][..., 3] == 0).all()  # masked stays clear
    crossed = (cell[..., :3] == rgb(colours.background)).all(-1)
    assert crossed[block // 2, block // 2] == (side <= 32)
