"""One head's map in HTML: values bit for bit, labels that cannot break out."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from mha_core import MHAConfig, maps
from mha_core.figures.focus import cell_labels
from mha_core.figures.focus_html import Hover, map_html
from mha_core.palette import DARK, LIGHT
from tests.figures.support import ODD, Tree, config, traced

ALT = 'weights of "head 1" <b>&amp; more'
CAUSAL = config(time=len(ODD), causal=True)


def drawn(made=CAUSAL, step="softmax", tokens=None, *, limit=96, head=1, **more):
    pooled, scaled = maps.scaled(maps.head_maps(traced(made), step), limit)
    hover = more.pop("hover", None) or Hover(
        cell_labels(pooled, tokens), "weight", ranges=pooled.factor > 1
    )
    how = {"colours": LIGHT, "alt": ALT} | more
    return scaled, Tree(map_html(scaled, head, hover, **how))


def picture(tree):
    ((attributes, _),) = tree.all("div", **{"class": "pic"})
    return attributes


def floats(packed):
    return np.frombuffer(base64.b64decode(packed), dtype="<f4")


@pytest.mark.parametrize("tokens", [None, ODD])
@pytest.mark.parametrize("bar", [True, False])
def test_it_is_html_of_a_few_tags_with_the_attributes_meant_and_no_other(tokens, bar):
    _, tree = drawn(tokens=tokens, bar=bar)
    assert tree.balanced
    assert {tag for tag, _, _ in tree.found} == {"div", "span", "img", "i"}
    for tag, attributes, _ in tree.found:
        meant = {"img": {"src", "alt"}, "i": {"class"}, "span": {"class", "style"}}
        also = {"role", "aria-label", "tabindex", "data-hover", "data-z"}
        assert set(attributes) <= meant.get(tag, {"class", "style"} | also)


def test_labels_of_markup_are_read_as_typed_on_both_axes_and_in_the_hover():
    _, tree = drawn(tokens=ODD)
    assert tree.balanced
    assert not tree.all("script")
    assert not tree.all("b")
    for side in ("ylab", "xlab"):
        ((_, text),) = tree.all("div", **{"class": side})
        shown = ["∅" if token == "" else "␣" if token == " " else token for token in ODD]
        for token in shown:
            if len(token) <= 12 and token != "\n":
                assert token in text
        assert '"><scrip…pt>' in text  # cut, and still only text
    # What the page's script parses: one label a cell, escaped once more for HTML.
    told = json.loads(picture(tree)["data-hover"])
    assert len(told["labels"]) == len(ODD)
    plain = ["".join(Tree(f"<p>{text}</p>").found[0][2]) for text in told["labels"]]
    assert plain[:5] == ["the", "the", "7", "2024-01-02", "<b>x</b>"]
    assert plain[6] == "a&amp;b"
    assert plain[7:10] == ["it's", "–", "3–5"]


@pytest.mark.parametrize("alt", ['"', "'", '"><script>', "a & b", "<", '" onfocus="x()', ""])
def test_no_description_breaks_out_of_its_attribute(alt):
    _, tree = drawn(alt=alt)
    assert tree.balanced
    assert picture(tree)["aria-label"] == alt
    assert picture(tree)["role"] == "img"
    assert set(picture(tree)) == {
        "class", "role", "aria-label", "tabindex", "data-hover", "data-z",
    }  # fmt: skip


@pytest.mark.parametrize("name", ['"', "'><script>", "max weight"])
def test_no_name_of_a_value_breaks_out_either(name):
    beside = (name, np.ones((len(ODD), len(ODD)), dtype=np.float32))
    _, tree = drawn(hover=Hover(["x"] * len(ODD), name, beside))
    assert tree.balanced
    told = json.loads(picture(tree)["data-hover"])
    assert (told["name"], told["beside"]) == (name, name)


@pytest.mark.parametrize("step", ["scores", "mask", "softmax"])
@pytest.mark.parametrize("head", [0, 2])
def test_the_values_come_bit_for_bit(step, head):
    scaled, tree = drawn(step=step, head=head)
    values = floats(picture(tree)["data-z"])
    np.testing.assert_array_equal(
        values.view(np.uint32), scaled.values[head].ravel().view(np.uint32)
    )
    exact = traced(CAUSAL).tensor(step)[0, head].numpy().ravel()
    there = ~np.isnan(values)
    np.testing.assert_array_equal(values[there], exact[there])
    assert there.all() == (step == "scores")


def test_a_second_value_comes_bit_for_bit_and_only_where_there_is_one():
    beside = np.random.default_rng(0).random((len(ODD), len(ODD))).astype(np.float32)
    _, tree = drawn(hover=Hover(["x"] * len(ODD), "weight", ("× uniform", beside)))
    np.testing.assert_array_equal(floats(picture(tree)["data-b"]), beside.ravel())
    _, tree = drawn()
    assert "data-b" not in picture(tree)
    assert "beside" not in json.loads(picture(tree)["data-hover"])


def test_the_picture_is_a_png_with_the_masked_half_clear():
    _, tree = drawn()
    ((attributes, _),) = tree.all("img")
    kind, _, data = attributes["src"].partition(",")
    assert kind == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))
    assert pixels.shape[0] == pixels.shape[1]
    assert pixels[2, -3, 3] == 0
    assert pixels[-3, 2, 3] == 255


def marks(tree, side):
    """Labels written along an axis, with their places in percent."""
    start = next(n for n, (_, at, _) in enumerate(tree.found) if side in at.get("class", ""))
    found = []
    for tag, attributes, text in tree.found[start + 1 :]:
        if tag != "span":
            break
        found.append(("".join(text), float(attributes["style"].split(":")[1].rstrip("%"))))
    return found


def test_each_label_stands_at_the_middle_of_its_cell():
    _, tree = drawn(tokens=ODD)
    for side in ("ylab", "xlab"):
        places = [at for _, at in marks(tree, side)]
        assert places == [pytest.approx(100 * (n + 0.5) / len(ODD), abs=0.01) for n in range(15)]


def test_of_many_labels_a_few_are_written_whole_and_all_are_told():
    made = MHAConfig(time=90)
    tokens = tuple(f"a–{n}" for n in range(90))
    _, tree = drawn(made, tokens=tokens)
    shown = [text for text, _ in marks(tree, "xlab")]
    assert 1 < len(shown) <= 10
    assert set(shown) <= set(tokens)
    assert json.loads(picture(tree)["data-hover"])["labels"] == list(tokens)


def test_of_a_pooled_range_the_start_is_written_and_the_range_told():
    made = MHAConfig(time=130)
    _, tree = drawn(made, limit=65)
    assert [text for text, _ in marks(tree, "ylab")][:2] == ["0", "18"]
    assert json.loads(picture(tree)["data-hover"])["labels"][9] == "18–19"


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("step", ["softmax", "scores"])
def test_the_bar_says_what_it_measures_and_its_ends(step, colours):
    scaled, tree = drawn(step=step, colours=colours)
    ((_, text),) = tree.all("div", **{"class": "what"})
    assert text.startswith(scaled.title)
    assert ("clipped" in text) == scaled.clipped
    ((_, ends),) = tree.all("div", **{"class": "ends"})
    assert ends.startswith(f"{scaled.high[1]:.2g}")
    ((attributes, _),) = tree.all("div", **{"class": "grad"})
    anchors = colours.diverging if scaled.diverging else colours.sequential
    assert all(anchor in attributes["style"] for anchor in anchors)
    _, tree = drawn(step=step, bar=False)
    assert not tree.all("div", **{"class": "bar"})


def test_a_map_of_one_cell_is_drawn_too():
    _, tree = drawn(config(time=1, heads=1), head=0)
    assert tree.balanced
    assert floats(picture(tree)["data-z"]).tolist() == [1.0]
