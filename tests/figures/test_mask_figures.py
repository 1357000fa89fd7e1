"""Figures of the masks page: every cell, label and number that was given, escaped, and no other."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import torch

from mha_core.figures import mask_axes, mask_cache, mask_fills, mask_scale, mask_words
from mha_core.figures.mask_grid import Grid, grid_html, grid_svg, two_tone
from mha_core.mask_lab import broadcast
from mha_core.mask_lab.align import aligned, decode
from mha_core.mask_lab.check import Checked
from mha_core.mask_lab.filled import run, survey
from mha_core.mask_lab.fills import DTYPES, FILLS
from mha_core.mask_lab.saturation import SCALES, WIDTHS, sampled
from mha_core.mask_lab.words import words
from mha_core.palette import DARK, LIGHT
from tests.mask_lab.support import BATCH, HEADS, KINDS, lab, parts_of

NUMBERS = [str(n) for n in range(5)]
SVG = "{http://www.w3.org/2000/svg}"


def grid(keep, **more):
    keep = np.array(keep, dtype=bool)
    return Grid(keep, NUMBERS[: keep.shape[0]], NUMBERS[: keep.shape[1]], **more)


def cells(markup):
    """Class of every cell, in order."""
    return re.findall(r'<i class="([^"]*)"', markup)


def test_a_cell_says_what_it_is():
    made = grid(
        [[1, 0, 0], [1, 1, 0]], padded=np.array([False, False, True]), drawn={(0, 1), (1, 2)}
    )
    markup = grid_html(made, alt="a mask", paint=True)
    assert cells(markup) == ["on", "off drawn", "pad", "on", "on", "pad"]
    # Padding is set by the lengths and cannot be painted.
    assert re.findall(r'data-cell="(\d,\d)"', markup) == ["0,0", "0,1", "1,0", "1,1"]
    assert markup.count('tabindex="0"') == 1
    assert markup.count('aria-checked="true"') == 3
    assert 'aria-label="query 0, key 1, hidden"' in markup


def test_a_row_that_sees_nothing_is_marked():
    markup = grid_html(grid([[1, 0], [0, 0]]), alt="")
    assert re.findall(r'<u class="mk-blind"[^>]*>(.)</u>', markup) == ["1"]


def test_what_stands_in_a_cell_is_what_it_was_given():
    markup = grid_html(grid([[1, 0]]), alt="<x>", text=lambda on: "<T>" if on else "F", small=True)
    assert re.findall(r"<i[^>]*>([^<]*)</i>", markup) == ["&lt;T&gt;", "F"]
    assert "&lt;x&gt;" in markup
    assert "<x>" not in markup


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_a_mask_as_svg_covers_exactly_its_visible_cells(colours):
    rng = np.random.default_rng(1)
    keep = rng.random((5, 4)) > 0.5
    root = ET.fromstring(grid_svg(grid(keep), title="a < b", colours=colours))
    assert root.find(f"{SVG}title").text == "a < b"
    path = next(p.get("d") for p in root.findall(f"{SVG}path") if p.get("fill"))
    found = np.zeros_like(keep)
    for x, y, wide, high in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)", path):
        side = float(high)
        row, start = round((float(y) - 62) / side), round((float(x) - 60) / side)
        found[row, start : start + round(float(wide) / side)] = True
    assert np.array_equal(found, keep)
    assert colours.background in ET.tostring(root, encoding="unicode")


def test_a_large_mask_is_a_picture():
    markup = two_tone(np.tri(300, dtype=bool), LIGHT, alt='"x"')
    assert markup.startswith('<img class="mk-tone" src="data:image/png;base64,')
    assert "&quot;x&quot;" in markup


def values(markup):
    """Cells of the tables of values."""
    return re.findall(r"<td[^>]*>([^<]*)</td>", markup)


def test_values_are_those_of_the_mask():
    assert values(mask_words.corner_html(torch.tensor([[True, False]]))) == ["T", "F"]
    assert values(mask_words.corner_html(torch.tensor([1, 0]))) == ["1", "0"]
    half = torch.tensor([[0.0, -torch.inf, -65504.0]]).half()
    markup = mask_words.corner_html(half)
    assert values(markup) == ["0", "−∞", "min"]
    assert "min = −65504" in markup
    assert values(mask_words.corner_html(torch.zeros(9, 9, dtype=torch.int64)))[8] == "…"


def some_words(kind):
    return words(*parts_of(KINDS[kind]), batch=BATCH, heads=HEADS, dtype=torch.float32)


def test_cards_say_what_was_found():
    found = some_words("causal padding")
    checks = {one.id: None for one in found if one.given}
    checks["sdpa_keep"] = Checked(1.25e-7, True, "0")
    checks["mha_two"] = Checked(0.5, False, "NaN")
    checks["bert_extended"] = Checked(None, False, error="boom <b>")
    markup = mask_words.words_html(found, checks, blind=3)
    cards = dict(re.findall(r'data-word="(\w+)">(.*?)(?=<div class="proof|<h3|$)', markup, re.S))
    assert list(cards) == [one.id for one in found]
    assert "differs from ours by 1.2e-07" in cards["sdpa_keep"]
    assert "✓" in cards["sdpa_keep"]
    assert "becomes zeros" in cards["sdpa_keep"]
    assert "✗" in cards["mha_two"]
    assert "becomes NaN" in cards["mha_two"]
    assert "boom &lt;b&gt;" in cards["bert_extended"]
    assert "cannot say this mask" in cards["sdpa_causal"]
    assert "running" in cards["gpt2_ones"]
    none_blind = mask_words.words_html(found, checks, blind=0)
    assert "sees no key becomes" not in none_blind


def test_a_conversion_shows_both_ends_and_its_line():
    keep = torch.tensor([[True, False]])
    markup = mask_words.pair_html(keep, ~keep, "ignore = ~keep", ("keep", "ignore"))
    assert values(markup) == ["T", "F", "F", "T"]
    assert "<pre>ignore = ~keep</pre>" in markup


def test_axes_and_refusals_are_told():
    target = (2, 3, 5, 7)
    markup = mask_axes.axes_html(broadcast.axes((2, 7), target), LIGHT)
    assert re.findall(r'class="mk-axis (\w+)"', markup) == [
        "names", "added", "added", "wrong", "same"
    ]  # fmt: skip
    assert "2 is neither 1 nor 5" in markup
    result = mask_axes.result_html((2, 7), target, None, ["<trap>"])
    assert "✗ (2, 7) does not broadcast to (2, 3, 5, 7)" in result
    assert "&lt;trap&gt;" in result
    fits = mask_axes.result_html((2, 1, 1, 7), target, (7, 0, 0, 1), [])
    assert "strides (7, 0, 0, 1)" in fits
    assert "14 numbers in memory stand for 210" in fits
    tried = mask_axes.attempts_html("", [broadcast.Attempt("f(<x>)", "E: <y>")])
    assert "f(&lt;x&gt;)" in tried
    assert "E: &lt;y&gt;" in tried
    assert tried.count("✓") == tried.count("✗") == 1


def test_alignments_show_torchs_weights():
    markup = mask_cache.aligned_html(aligned(5, 2))
    assert values(markup)[-4:] == ["1", "0", ".5", ".5"]
    assert "3 queries see no key: 0, 1, 2" in markup


def test_a_cache_is_told_call_by_call():
    steps = decode(lab(), 3, 1)
    markup = mask_cache.cache_html(steps)
    rows = re.findall(r"<tr>(<td>.*?)</tr>", markup)
    assert len(rows) == len(steps)
    first = re.findall(r"<td[^>]*>(.*?)</td>", rows[0])
    assert first[:3] == ["prompt", "0–2", str(steps[0].x)]
    assert first[6] == str(steps[0].mask)
    assert "none needed" in rows[1]
    assert 'class="num bad"' in rows[1]  # is_causal would be wrong
    root = ET.fromstring(mask_cache.cache_svg(steps, LIGHT))
    # Each row of the causal triangle: one box of new keys, and one of cached keys after the prompt.
    time, prompt = 5, 3
    assert len(root.findall(f"{SVG}rect")) == time + (time - prompt)
    assert len(mask_cache.cache_rows(steps)[0]) == len(mask_cache.COLUMNS)


@pytest.fixture(scope="module")
def rows():
    at = lab(dtype="float32")
    made = replace(KINDS["an empty row"], causal=True)
    return survey(at, parts_of(made), ("ours", *FILLS, "-2"), DTYPES)


def test_every_fill_and_dtype_has_its_cell(rows):
    markup = mask_fills.matrix_html(rows, ("-1e9", "float16"))
    picks = re.findall(r'data-pick="([^"]+)"', markup)
    assert picks == [f"{row[0].fill}|{dtype}" for row in rows for dtype in DTYPES]
    assert markup.count('aria-selected="true"') == 1
    cells_ = dict(re.findall(r'data-pick="([^"]+)"(.*?)</div></div>', markup))
    assert "refused by masked_fill" in cells_["-1e9|float16"]
    assert "becomes −9.982444e+08" in cells_["-1e9|bfloat16"]
    assert "NaN from softmax(-1)" in cells_["-inf|float32"]
    assert "no NaN" in cells_["ours|float32"]
    assert "leaks 0.17" in cells_["-2|float32"]
    assert len(mask_fills.fill_rows(rows)) == 7 * 3
    assert {len(row) for row in mask_fills.fill_rows(rows)} == {len(mask_fills.TITLES)}


def test_the_chosen_run_is_told_step_by_step():
    at = lab(dtype="float32")
    found = run(at, parts_of(KINDS["an empty row"]), "-inf", "float32", backward=True)
    markup = mask_fills.detail_html(found)
    assert "First NaN in softmax(-1), at [0, 0, 2, 0]: 30 of 150" in markup
    steps = re.findall(r'class="mk-step (\w+)" data-step="(\w+)"', markup)
    assert len(steps) == len(found.forward) + len(found.backward)
    assert ("bad", "W_v") in steps
    assert ("good", "W_q") in steps
    refused = run(at, parts_of(KINDS["causal"]), "-1e9", "float16")
    assert "cannot be converted" in mask_fills.detail_html(refused)
    nothing = replace(found, backward=())
    assert "there is no loss" in mask_fills.detail_html(nothing)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_charts_have_a_point_for_every_number(colours):
    found = sampled(4, keys=8)
    markup = mask_scale.charts_html(found, colours, at=8)
    assert markup.count("<circle") == 4 * len(WIDTHS) * len(SCALES)
    said = [float(v.replace("−", "-")) for v in re.findall(r"d_k \d+: (\S+)</title>", markup)]
    assert sorted(said)[-1] == pytest.approx(max(one.std for one in found), rel=1e-3)
    root = ET.fromstring(mask_scale.charts_svg(found, colours, at=8))
    assert len(root.findall(f".//{SVG}circle")) == 4 * len(WIDTHS) * len(SCALES)
    for circle in root.findall(f".//{SVG}circle"):
        assert 40 <= float(circle.get("cx")) <= 430
        assert 10 <= float(circle.get("cy")) <= 195
    table = mask_scale.scale_table(found, colours)
    assert table.count("<tr>") == 1 + len(found)
    assert len(mask_scale.scale_rows(found)[0]) == len(mask_scale.COLUMNS)
