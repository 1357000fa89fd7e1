"""The masks page: what is on screen is what torch made of the mask that was built."""

from __future__ import annotations

import json
import re

import pytest
import torch
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, trace_forward
from mha_core.mask_lab import align, build, filled, saturation
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.fills import DTYPES, FILLS
from mha_core.mask_lab.lab import Lab, lab_of
from pages.shared import masks_build
from tests.pages.support import (
    component,
    components,
    config,
    new_app,
    piece,
    pieces,
    run,
    said,
    text,
)

PAGE = "pages/5_Masks.py"
ODD = {"batch": 2, "time": 5, "d_model": 21, "heads": 3}
SECTIONS = ("Build", "Convert", "Broadcast", "Tq ≠ Tk", "Fill and NaN", "Scale")


def open_masks(section: str = "Build", *, fields: dict | None = None, **query) -> AppTest:
    """The page at a section, with fields of the mask as if chosen before."""
    at = new_app(**(ODD | query))
    at.switch_page(PAGE)
    run(at)
    choose(at, section)
    if fields:
        at.session_state["masks"].update(fields)
    return run(at)


def choose(at: AppTest, section: str) -> AppTest:
    at.session_state["masks"]["section"] = section
    return run(at)


def lab(at: AppTest) -> Lab:
    return lab_of(trace_forward(config(at), clock=False))


def cells(at: AppTest) -> list[list[str]]:
    """Class of each cell of the grid, by query."""
    markup = component(at, "mk_grid")["html"]
    found = re.findall(r'<i class="([^"]*)"', markup)
    columns = int(re.search(r'data-columns="(\d+)"', markup)[1])
    return [found[n : n + columns] for n in range(0, len(found), columns)]


def visible(at: AppTest) -> list[list[bool]]:
    return [["on" in cell.split() for cell in row] for row in cells(at)]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"batch": 1, "time": 1, "d_model": 1, "heads": 1},
        {"time": 40, "batch": 5},
        {"dtype": "bfloat16", "causal": 1, "dropout": 0.3},
        {"dtype": "float64", "scale": 1.0, "bias": 0},
        {"input": "text", "text": "<b>one</b> [two](x) 3"},
    ],
)
def test_every_section_draws_at_every_configuration(section, query):
    fields = {"parts": ["causal", "prefix", "sliding window", "blocks", "padding"]}
    at = open_masks(section, fields=fields, **query)
    assert said(at) == ""
    shown = "".join(pieces(at))
    assert shown
    assert "<b>one</b>" not in shown
    assert 'class="mark fails"' not in shown  # no library was refused, and none differs


@pytest.mark.parametrize(
    ("parts", "fields", "spec"),
    [
        (["causal"], {}, {"causal": True}),
        (["prefix"], {"prefix": 3}, {"prefix": 3}),
        (["causal", "sliding window"], {"window": 2}, {"causal": True, "window": 2}),
        (["blocks"], {"blocks": "2, 1, 2"}, {"blocks": (2, 1, 2)}),
        (["padding"], {"lengths": "5 2"}, {"lengths": (5, 2)}),
        (["padding"], {}, {"lengths": (5, 3)}),
        ([], {}, {}),
    ],
)
def test_the_grid_is_the_mask_of_the_parts(parts, fields, spec):
    at = open_masks(fields={"parts": parts, "item": 1} | fields)
    keep = build.keep(MaskSpec(time_q=5, time_k=5, **spec))
    keep = keep if keep.dim() == 2 else keep[1, 0]
    assert visible(at) == keep.tolist()
    share = 100 * build.keep(MaskSpec(time_q=5, time_k=5, **spec)).float().mean()
    assert f"{share:.1f} % visible" in text(piece(at, "<h2>Mask</h2>"))


def test_a_part_is_chosen_in_its_pills():
    at = open_masks()
    assert visible(at)[0] == [True, False, False, False, False]
    at.get("button_group")[1].set_value([])
    run(at)
    assert all(all(row) for row in visible(at))


def paint(at: AppTest, *strokes: tuple[bool, list[tuple[int, int]]], sent: str = "") -> AppTest:
    """What the grid sends when cells were painted."""
    first = at.session_state["masks"]["stroke"] + 1
    made = [
        {"id": first + n, "keep": keep, "cells": cells} for n, (keep, cells) in enumerate(strokes)
    ]
    state = {"mk_grid": {"painted": sent or json.dumps(made)}, "masks": at.session_state["masks"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks_build.st, "session_state", state)
        masks_build._painted()
    return run(at)


def test_painted_cells_win_over_the_parts_and_can_be_cleared():
    at = open_masks()
    paint(at, (True, [(0, 3), (0, 4)]))
    paint(at, (False, [(4, 0)]))
    shown = cells(at)
    assert shown[0][3:] == ["on drawn", "on drawn"]
    assert shown[4][0] == "off drawn"
    assert visible(at)[1] == [True, True, False, False, False]
    # They stay when a part changes, and go with one click.
    at.session_state["masks"]["parts"] = []
    run(at)
    assert cells(at)[4][0] == "off drawn"
    next(button for button in at.button if button.key == "mk_clear").click()
    run(at)
    assert all(all(row) for row in visible(at))


def test_strokes_sent_again_are_not_painted_again():
    at = open_masks()
    paint(at, (True, [(0, 3)]), (False, [(0, 3), (1, 0)]))
    assert cells(at)[0][3] == "off drawn"
    assert component(at, "mk_grid")["ack"] == 2
    again = json.dumps([{"id": 1, "keep": True, "cells": [[0, 3]]}])
    paint(at, sent=again)
    assert cells(at)[0][3] == "off drawn"


@pytest.mark.parametrize(
    "sent",
    [
        "", "nonsense", "3", "{}", "[7]", '[{"keep": true}]',
        '[{"id": 1, "keep": 1, "cells": [[0]]}]',
        '[{"id": 1, "keep": false, "cells": [[99, 0], [-1, 2]]}]',
        '[{"id": "x", "keep": false, "cells": [[1, 0]]}]',
        '[{"id": 1, "keep": false, "cells": "xy"}]',
    ],
)  # fmt: skip
def test_what_no_grid_sends_changes_nothing(sent):
    at = open_masks()
    before = visible(at)
    paint(at, sent=sent)
    assert visible(at) == before


def test_a_cell_that_is_no_longer_there_is_left_out():
    at = open_masks(time=8)
    paint(at, (True, [(0, 7)]))
    assert cells(at)[0][7] == "on drawn"
    at.number_input(key="w_time#exact").set_value(5)
    run(at)
    assert len(cells(at)) == 5


def test_a_mask_too_large_for_cells_is_a_picture_with_its_values():
    at = open_masks(time=40)
    assert "mk_grid" not in components(at)
    markup = component(at, "mk_map")["html"]
    assert "data-hover" in markup
    assert component(at, "mk_forms")["html"].count("data:image/png") == 3
    assert "Cells can be painted up to 16 × 16" in "".join(pieces(at))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"parts": ["padding"], "lengths": "5"}, "must be 2 numbers, one a batch item, not 1"),
        ({"parts": ["padding"], "lengths": "5, 9"}, "must be an integer from 0 to 5"),
        ({"parts": ["padding"], "lengths": "five"}, "must be whole numbers"),
        ({"parts": ["blocks"], "blocks": ""}, "must be one size, or a list of sizes"),
        ({"parts": ["blocks"], "blocks": "0"}, "must be an integer from 1"),
        ({"parts": ["blocks"], "blocks": "![x](http://e)"}, "must be whole numbers"),
    ],
)
def test_a_mask_that_cannot_be_is_refused_and_the_last_one_stays(fields, words):
    at = open_masks(fields={"parts": ["causal", "sliding window"], "window": 2})
    before = visible(at)
    at.session_state["masks"].update(fields)
    run(at)
    assert words in said(at)
    assert "](" not in said(at)
    assert visible(at) == before
    assert words in said(choose(at, "Convert"))


def test_every_word_is_checked_and_none_differs():
    at = open_masks("Convert", fields={"parts": ["causal", "padding"]})
    markup = piece(at, "mk-library")
    found = re.findall(r'data-word="(\w+)"><span class="mark (\w*)">(.)</span>', markup)
    verdicts = {name: mark for name, _, mark in found}
    assert verdicts == {
        "sdpa_keep": "✓", "sdpa_additive": "✓", "sdpa_causal": "–", "mha_two": "✓",
        "mha_heads": "✓", "mha_causal": "–", "bert_ones": "–", "gpt2_ones": "✓",
        "bert_extended": "✓", "gpt2_extended": "✓",
    }  # fmt: skip
    assert markup.count("differs from ours by") == 7
    assert "A row that sees no key" not in markup


def test_empty_rows_are_told_library_by_library():
    at = open_masks("Convert", fields={"parts": ["causal", "padding"], "side": "left"})
    markup = text(piece(at, "mk-library"))
    assert "A row that sees no key becomes NaN." in markup
    assert "A row that sees no key becomes zeros." in markup
    assert "A row that sees no key becomes an even spread" in markup


@pytest.mark.parametrize(("have", "need"), [("keep", "ignore"), ("extended", "attention_mask")])
def test_a_conversion_is_shown_with_its_line(have, need):
    at = open_masks("Convert", fields={"have": have, "need": need})
    shown = piece(at, "mk-pair")
    from mha_core.mask_lab.forms import line

    assert line(have, need) in text(shown)
    assert f"{need} <b>(5, 5)</b>" in shown


def test_a_shape_is_read_axis_by_axis_and_refused_in_torchs_words():
    at = open_masks("Broadcast")
    at.text_input(key="w_mk_shape").set_value("batch, Tk")
    run(at)
    shown = text(piece(at, "mk-axes"))
    assert "2 is neither 1 nor 5" in shown
    assert "(2, 5) does not broadcast to (2, 3, 5, 5)" in shown
    tried = text(piece(at, "mk-tries"))
    with pytest.raises(RuntimeError, match="must match the size") as caught:
        torch.zeros(2, 3, 5, 5).masked_fill(torch.zeros(2, 5).bool(), 0)
    assert str(caught.value) in tried
    assert "must broadcast to (batch, h, Tq, Tk) = (2, 3, 5, 5)" in tried


def test_a_shape_that_cannot_be_read_keeps_the_last():
    at = open_masks("Broadcast", fields={"shape": "Tq, Tk"})
    at.text_input(key="w_mk_shape").set_value("[click](http://evil)")
    run(at)
    assert "is neither a size nor the name of an axis" in said(at)
    assert "](" not in said(at)
    assert "(5, 5) broadcasts to (2, 3, 5, 5)" in text(piece(at, "mk-axes"))


def test_the_cache_is_the_librarys():
    at = open_masks("Tq ≠ Tk", fields={"prompt": 2, "chunk": 2})
    steps = align.decode(lab(at), 2, 2)
    shown = component(at, "mk_cache")["html"]
    rows = re.findall(r"<tr>(<td>.*?)</tr>", shown)
    assert len(rows) == len(steps) == 3
    for row, step in zip(rows, steps, strict=True):
        found = [text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        assert found[2:6] == [str(shape) for shape in (step.x, step.q, step.k, step.scores)]
    at.number_input(key="w_mk_time_q").set_value(5)
    at.number_input(key="w_mk_time_k").set_value(2)
    run(at)
    assert "3 queries see no key: 0, 1, 2" in text(piece(at, "mk-two"))


def test_every_fill_is_what_the_library_finds():
    at = open_masks("Fill and NaN", fields={"blind": False, "parts": ["causal"]})
    parts = (build.pattern(MaskSpec(time_q=5, time_k=5, causal=True)), None)
    rows = filled.survey(lab(at), parts, ("ours", *FILLS, "-10"), DTYPES)
    shown = component(at, "mk_fills")["html"]
    cases = dict(re.findall(r'data-pick="([^"]+)"(.*?)</div></div>', shown))
    assert len(cases) == 21
    for one in (run_ for row in rows for run_ in row):
        case = text(cases[f"{one.fill}|{one.dtype}"])
        assert ("refused" in case) == bool(one.error)
        if not one.error:
            assert ("no leak" in case) == (one.leak.largest == 0)
            assert "no NaN" in case
    assert "No weight on a masked key, no NaN" in text(piece(at, "mk-detail"))


def test_an_empty_row_is_followed_into_the_gradients():
    at = open_masks("Fill and NaN", fields={"how": "add", "picked": ("-inf", "float32")})
    shown = piece(at, "mk-detail")
    assert "First NaN in softmax(-1), at [0, 0, 0, 0]" in text(shown)
    bad = re.findall(r'class="mk-step bad" data-step="(\w+)"', shown)
    assert bad[:4] == ["softmax", "weighted_values", "merge", "output"]
    assert {"W_q", "W_k", "W_v", "W_o"} <= set(bad)
    at.session_state["masks"]["picked"] = ("ours", "float16")
    run(at)
    assert "mk-step bad" not in piece(at, "mk-detail")


def test_the_scale_is_sampled_for_these_heads_and_seed():
    at = open_masks("Scale", seed=7)
    found = saturation.sampled(3, keys=64, seed=7)
    shown = component(at, "mk_charts")["html"]
    said_ = re.findall(r"none, d_k 512: (\S+)</title>", shown)
    assert float(said_[0]) == pytest.approx(
        next(one.std for one in found if one.d_k == 512 and one.scale == "none"), rel=1e-3
    )
    own = text(piece(at, "mk-table"))
    trace = trace_forward(MHAConfig(**ODD, seed=7), clock=False)
    assert f"{float(trace.tensor('scale').std(correction=0)):.3f}" in own


def test_the_mask_stays_while_other_pages_are_looked_at():
    at = open_masks(fields={"parts": ["blocks"], "blocks": "2"})
    before = visible(at)
    at.switch_page("app.py")
    run(at)
    at.switch_page(PAGE)
    run(at)
    assert visible(at) == before


@pytest.mark.parametrize(
    ("section", "causal", "step"),
    [
        ("Build", 1, "mask"), ("Broadcast", 0, "softmax"), ("Fill and NaN", 1, "softmax"),
        ("Scale", 0, "scale"),
    ],
)  # fmt: skip
def test_its_step_opens_in_the_pipeline(section: str, causal: int, step: str):
    at = open_masks(section, causal=causal)
    at.button(key=f"w_step_{step}").click()
    run(at)
    assert f'data-pick="{step}" tabindex="0" aria-selected="true"' in piece(at, "shapes-box")


def test_a_run_that_cannot_be_leaves_the_last_view():
    at = open_masks()
    at.number_input(key="w_heads#exact").set_value(2)
    run(at)
    assert "d_model=21" in said(at)
    assert len(cells(at)) == 5


def test_every_section_offers_its_files():
    for section in SECTIONS:
        at = open_masks(section)
        at.session_state["w_mk_export"] = True
        run(at)
        names = {element.proto.label for element in at.get("download_button")}
        assert names, section
        if section == "Build":
            assert names == {"Mask, NPY", "Mask, NPZ", "Mask, JSON", "Figure, SVG"}
        else:
            assert "Table, CSV" in names


def test_what_the_sidebar_does_not_do_here_is_said() -> None:
    def words(at: AppTest) -> list[str]:
        return [one.value for one in at.caption if "the mask is the one you build" in one.value]

    assert words(open_masks()) == []
    (said_so,) = words(open_masks(causal=1, scale=0.5))
    assert said_so.endswith("the sidebar’s causal and scale act on the other pages.")
