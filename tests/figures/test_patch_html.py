"""A window of a map in HTML: values bit for bit, labels where their cells are, inert text."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mha_core.figures.axes import axis, ticks
from mha_core.figures.patch_html import PatchHover, chosen_cells, patch_html, shape_of
from mha_core.palette import DARK, LIGHT
from mha_core.patch import patch_of, scaled_patch
from tests.figures.support import ODD, Tree

ALT = 'weights of "head 1" <b>&amp; more'


def made(rows=6, columns=9, *, at=(0, 0), limit=96, time=4000, causal=False, how="max"):
    values = torch.rand(rows, columns, generator=torch.Generator().manual_seed(rows))
    visible = torch.ones(rows, columns, dtype=torch.bool).tril(2) if causal else None
    queries, keys = (at[0], at[0] + rows), (at[1], at[1] + columns)
    return patch_of(values, visible, queries, keys, limit, how, time=time)


def drawn(patch, hover=None, *, weights=True, scale="weight", **how):
    patch, scaled = scaled_patch(patch, scale, weights=weights)
    settings = {"colours": LIGHT, "alt": ALT} | how
    text = patch_html(patch, scaled, hover or PatchHover("weight"), **settings)
    return Tree(text), scaled, text


def picture(tree):
    ((attributes, _),) = tree.all("div", **{"class": "pic"})
    return attributes


def told(tree):
    return json.loads(picture(tree)["data-hover"])


def plain(label):
    return "".join(Tree(f"<p>{label}</p>").found[0][2])


def floats(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def marks(tree, side):
    """Labels written along an axis, with their places in percent."""
    start = next(n for n, (_, at, _) in enumerate(tree.found) if side in at.get("class", ""))
    found = []
    for tag, attributes, text in tree.found[start + 1 :]:
        if tag != "span":
            break
        found.append(("".join(text), float(attributes["style"].split(":")[1].rstrip("%"))))
    return found


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [True, False])
def test_the_values_come_bit_for_bit_with_masked_cells_absent(weights):
    patch = made(12, 30, causal=True)
    tree, scaled, _ = drawn(patch, weights=weights)
    sent = floats(picture(tree)["data-z"])
    np.testing.assert_array_equal(sent.view(np.uint32), scaled.values.ravel().view(np.uint32))
    np.testing.assert_array_equal(sent, patch.values.ravel())
    assert np.isnan(sent).any()
    assert "some" in picture(tree)["class"].split()  # hatched where there is nothing
    assert "some" not in picture(drawn(made())[0])["class"].split()


def test_a_second_value_comes_too_and_only_where_there_is_one():
    beside = np.random.default_rng(0).random((6, 9)).astype(np.float32)
    tree, *_ = drawn(made(), PatchHover("weight", beside=('× <"uniform">', beside)))
    np.testing.assert_array_equal(floats(picture(tree)["data-b"]), beside.ravel())
    assert told(tree)["beside"] == '× <"uniform">'
    assert "data-b" not in picture(drawn(made())[0])


def test_the_largest_picture_is_small_to_send():
    tree, _, text = drawn(made(2000, 3000))
    assert len(floats(picture(tree)["data-z"])) <= 96 * 96
    assert len(text) < 75_000


def test_the_picture_has_a_pixel_or_a_block_a_cell():
    for rows, columns in ((96, 40), (3, 90), (1, 1), (7, 32)):
        tree, *_ = drawn(made(rows, columns))
        ((attributes, _),) = tree.all("img")
        kind, _, data = attributes["src"].partition(",")
        assert kind == "data:image/png;base64"
        width, height = Image.open(io.BytesIO(base64.b64decode(data))).size
        assert width / columns == height / rows >= 1


# --- labels -------------------------------------------------------------------------------------


def test_rows_and_columns_have_labels_of_their_own():
    tree, *_ = drawn(made(3, 5, at=(1200, 40)))
    assert told(tree)["rows"] == ["1,200", "1,201", "1,202"]
    assert told(tree)["columns"] == ["40", "41", "42", "43", "44"]
    assert [text for text, _ in marks(tree, "ylab")] == ["1,200", "1,201", "1,202"]
    assert [text for text, _ in marks(tree, "xlab")] == ["40", "41", "42", "43", "44"]


def test_of_pooled_cells_the_ranges_are_told():
    tree, *_ = drawn(made(1000, 86, at=(1000, 7), limit=24))  # 42 queries, 4 keys a cell
    assert told(tree)["rows"][:2] == ["1,000–1,041", "1,042–1,083"]
    assert told(tree)["rows"][-1] == "1,966–1,999"
    assert told(tree)["columns"][0] == "7–10"
    assert told(tree)["columns"][-1] == "91–92"
    assert told(tree)["name"] == "max weight"
    assert told(drawn(made())[0])["name"] == "weight"
    assert told(drawn(made(50, 50, limit=10, how="mean"))[0])["name"] == "mean weight"


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 40_000), st.integers(1, 3000), st.sampled_from([1, 5, 96]), st.booleans())
def test_every_mark_stands_in_the_cell_that_holds_its_position(start, count, limit, across):
    factor = -(-count // limit)
    stop = start + count
    spans = [(place, min(place + factor, stop)) for place in range(start, stop, factor)]
    found = axis(spans, None, 500, across=across)
    assert len(found.names) == len(spans)
    assert 1 <= len(found.marks) <= 10
    for at, text in found.marks:
        position = int(text.replace(",", ""))
        cell = int(at / 100 * len(spans))
        assert spans[cell][0] <= position < spans[cell][1]
    if not found.turned and across:
        needed = 7 * found.letters
        gaps = np.diff([at for at, _ in found.marks])
        assert (gaps * 5 > needed).all()


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 12))
def test_ticks_are_round_and_few(start, count, room):
    found = ticks(start, start + count, room)
    assert 1 <= len(found) <= room
    assert all(start <= place < start + count for place in found)
    gaps = set(np.diff(found).tolist())
    assert len(gaps) <= 1
    for gap in gaps:
        assert str(gap).strip("0") in ("1", "2", "5")
        assert all(place % gap == 0 for place in found)


def test_tokens_are_labels_where_cells_are_single():
    words = [f"w{n}" for n in range(200)]
    tree, *_ = drawn(made(4, 8, at=(100, 20)), PatchHover("weight", words))
    assert [text for text, _ in marks(tree, "ylab")] == ["w100", "w101", "w102", "w103"]
    assert [text for text, _ in marks(tree, "xlab")] == words[20:28]
    assert [plain(name) for name in told(tree)["rows"][:2]] == ["100 “w100”", "101 “w101”"]
    places = [at for _, at in marks(tree, "xlab")]
    assert places == [pytest.approx(100 * (n + 0.5) / 8, abs=0.01) for n in range(8)]
    # Keys pooled, queries not: each axis as it is.
    tree, *_ = drawn(made(4, 80, at=(100, 20), limit=20), PatchHover("weight", words))
    assert told(tree)["columns"][0] == "20–23"
    assert plain(told(tree)["rows"][0]) == "100 “w100”"


def test_labels_of_markup_are_read_as_typed():
    tree, *_ = drawn(made(len(ODD), len(ODD)), PatchHover("weight", ODD))
    assert tree.balanced
    assert not tree.all("script")
    assert not tree.all("b")
    texts = [text for text, _ in marks(tree, "xlab")]
    assert texts[:5] == ["the", "the", "7", "2024-01-02", "<b>x</b>"]
    names = [plain(name) for name in told(tree)["columns"]]
    assert names[4:7] == ["4 “<b>x</b>”", '5 “"><script>alert(1)</script>”', "6 “a&amp;b”"]
    assert names[10] == "10 “∅”"


def test_long_tokens_are_turned_and_cut():
    words = ["a" * 40] * 9
    tree, *_ = drawn(made(9, 9), PatchHover("weight", words))
    (xlab,) = (at for _, at, _ in tree.found if "xlab" in at.get("class", ""))
    assert "turned" in xlab["class"].split()
    height = float(xlab["style"].split(":")[1].rstrip("px"))
    assert height >= 7 * max(len(text) for text, _ in marks(tree, "xlab"))
    tree, *_ = drawn(made(9, 9), PatchHover("weight", list("abcdefghi")))
    (xlab,) = (at for _, at, _ in tree.found if "xlab" in at.get("class", ""))
    assert "turned" not in xlab["class"].split()


# --- what else is said --------------------------------------------------------------------------


@pytest.mark.parametrize("zoom", [True, False])
@pytest.mark.parametrize("alt", [ALT, '"', "'", '"><script>', '" onfocus="x()', ""])
def test_no_description_breaks_out_of_its_attribute(alt, zoom):
    tree, *_ = drawn(made(), alt=alt, zoom=zoom)
    assert tree.balanced
    assert {tag for tag, _, _ in tree.found} == {"div", "span", "img", "i"}
    assert picture(tree)["aria-label"] == alt
    known = {"class", "role", "aria-label", "tabindex", "data-hover", "data-z"}
    assert set(picture(tree)) - known == ({"data-zoom", "aria-description"} if zoom else set())


def test_the_script_knows_whether_there_is_a_way_back():
    assert picture(drawn(made(9, 9, time=9))[0])["data-zoom"] == "whole"
    assert picture(drawn(made(9, 8, time=9))[0])["data-zoom"] == "inside"
    assert picture(drawn(made(4, 4, at=(5, 5), time=9))[0])["data-zoom"] == "inside"


def test_the_pooling_is_said_with_its_factors():
    _, _, text = drawn(made(1000, 50, limit=25))
    assert "each cell: max of 40 × 2 weights; zoom in for single ones" in text
    _, _, text = drawn(made(50, 1000, limit=25, how="mean"), zoom=False)
    assert "each cell: mean of 2 × 40 weights</div>" in text
    hover = PatchHover("score", many="scores")
    assert "max of 2 × 1 scores" in drawn(made(50, 25, limit=25), hover, weights=False)[2]
    assert "each cell" not in drawn(made())[2]


@pytest.mark.parametrize(
    ("rows", "columns", "ratio"), [(10, 20, 2), (20, 10, 0.5), (1, 400, 3), (400, 1, 1 / 3)]
)
def test_a_position_is_square_unless_the_picture_became_a_strip(rows, columns, ratio):
    patch = made(rows, columns)
    assert shape_of(patch) == pytest.approx(ratio)
    assert f"--ratio:{ratio:.4g};" in drawn(patch)[2]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("weights", [True, False])
def test_the_colour_scale_says_what_it_measures_and_its_ends(weights, colours):
    tree, scaled, _ = drawn(made(), weights=weights, colours=colours)
    ((_, text),) = tree.all("div", **{"class": "patch-scale"})
    high = f"{scaled.high[0]:.2g}"
    low = f"−{high}" if weights is False else "0"
    assert text == f"{scaled.title}{low}{high}"
    anchors = colours.sequential if weights else colours.diverging
    assert all(anchor in picture_style(tree) for anchor in anchors)


def picture_style(tree):
    return next(at["style"] for tag, at, _ in tree.found if tag == "i" and "style" in at)


def test_a_scale_that_ends_below_the_largest_says_so():
    values = torch.full((40, 40), 0.001)
    values[0, 0] = 1.0
    patch = patch_of(values, None, (0, 40), (0, 40), 96, time=40)
    tree, scaled, _ = drawn(patch)
    assert scaled.clipped
    ((_, text),) = tree.all("div", **{"class": "patch-scale"})
    assert text.endswith(" or more")


# --- what comes back ----------------------------------------------------------------------------


@settings(deadline=None)
@given(st.tuples(*[st.integers(0, 10**6)] * 4))
def test_boxes_and_cells_are_read_back(numbers):
    a, b, c, d = numbers
    assert chosen_cells(f"box:{a},{b},{c},{d}") == ((a, b), (c, d))
    assert chosen_cells(f"cell:{a},{b}") == ((a, a + 1), (b, b + 1))


@pytest.mark.parametrize(
    "value",
    ["", "reset", "box:", "box:1,2,3", "box:1,2,3,4,5", "cell:-1,2", "cell:1,2,3", "cell:1",
     "box:1,2,3,x", "cell:²,1", "cell:1,2\n", "box:1, 2,3,4", "cell:" + "9" * 5000 + ",1", "3"],
)  # fmt: skip
def test_anything_else_is_neither(value):
    assert chosen_cells(value) is None
