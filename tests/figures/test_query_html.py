"""One query or key in HTML: bars, the strongest, and words that can be read on their tints."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
import torch

from mha_core.errors import ConfigError
from mha_core.figures.query_html import query_html
from mha_core.figures.words_html import ink, luminance, tints, words_html
from mha_core.one_line import line_of
from mha_core.palette import DARK, LIGHT
from tests.figures.support import ODD, Tree

WORDS = [f"w{n}" for n in range(3000)]


def row(count=12, seen=None, seed=0):
    """Weights that sum to 1 over the first `seen` keys."""
    made = torch.rand(count, generator=torch.Generator().manual_seed(seed)) ** 4
    visible = torch.arange(count) < (count if seen is None else seen)
    made = torch.where(visible, made, 0.0)
    return made / made.sum(), visible


def drawn(weights, visible=None, *, index=0, **how):
    settings = {"colours": LIGHT} | how
    text = query_html(weights, visible, index=index, **settings)
    tree = Tree(text)
    assert tree.balanced
    return tree, text


def picture(tree):
    ((attributes, _),) = tree.all("div", **{"class": "pic"})
    return attributes


def told(tree):
    return json.loads(picture(tree)["data-hover"])


def cells(text):
    """The rows of the table, header left out, as plain text."""
    table = text[text.index("<table>") : text.index("</table>")]
    rows = re.findall("<tr>(.*?)</tr>", table)[1:]
    plain = [re.findall("<td>(.*?)</td>", line) for line in rows]
    return [["".join(Tree(f"<p>{cell}</p>").found[0][2]) for cell in line] for line in plain]


def outline(text, kind):
    return re.search(f'class="{kind}" d="([^"]*)"', text)[1]


# --- bars ---------------------------------------------------------------------------------------


def test_every_bar_has_the_height_of_its_weight():
    weights, _ = row(12)
    tree, text = drawn(weights)
    found = re.findall(r"M([\d.]+) ([\d.e-]+)h", outline(text, "full"))
    assert len(found) == 12
    for place, (left, top) in enumerate(found):
        assert float(left) == pytest.approx(place, abs=0.11)
        height = 100 * float(weights[place] / weights.max())
        assert 100 - float(top) == pytest.approx(height, abs=0.02)
    sent = np.frombuffer(base64.b64decode(picture(tree)["data-z"]), "<f4")
    np.testing.assert_array_equal(sent, weights.numpy())
    assert told(tree)["name"] == "weight"


def test_masked_keys_are_absent_from_bars_table_and_hover():
    weights, visible = row(12, seen=5)
    tree, text = drawn(weights, visible, index=4)
    assert outline(text, "ground").count("M") == 5
    assert outline(text, "full").count("M") <= 5
    sent = np.frombuffer(base64.b64decode(picture(tree)["data-z"]), "<f4")
    assert np.isnan(sent).tolist() == (~visible).tolist()
    assert len(cells(text)) == 5
    assert "all weights" in text
    assert "some" in picture(tree)["class"].split()
    assert "hatched: masked, not zero" in text
    assert "5 of 12 keys visible" in text
    # A weight of 0 that is visible is another thing.
    _, text = drawn(torch.tensor([0.0, 1.0]))
    assert outline(text, "ground").count("M") == 2
    assert outline(text, "full").count("M") == 1
    assert [line[0] for line in cells(text)] == ["1", "0"]


def test_many_keys_are_pooled_to_bars_that_say_so():
    weights, visible = row(32_768, seen=20_000)
    tree, text = drawn(weights, visible, index=19_999)
    assert "each bar: max of 128 weights" in text
    assert told(tree)["name"] == "max weight"
    assert len(told(tree)["columns"]) == 256
    assert told(tree)["columns"][1] == "128–255"
    sent = np.frombuffer(base64.b64decode(picture(tree)["data-z"]), "<f4")
    assert sent[3] == float(weights[384:512].max())
    # The table is of single weights all the same.
    assert cells(text)[0][:2] == [f"{int(weights.argmax()):,}", f"{float(weights.max()):.4g}"]
    assert len(text) < 40_000


@pytest.mark.parametrize("count", [256, 257])
def test_up_to_256_bars_are_single_keys(count):
    tree, text = drawn(row(count)[0])
    assert (len(told(tree)["columns"]) == 256) == (count == 256)
    assert ("each bar" in text) == (count == 257)


def test_a_column_is_told_with_queries_along_the_bars():
    weights, visible = row(12, seen=9)
    tree, text = drawn(weights * 3, visible, index=5, direction="key", tokens=WORDS[:12])
    assert told(tree)["turned"] is True
    assert told(tree)["rows"] == ["5 “w5”"]
    assert "sum over the queries 3" in text
    assert "running sum" not in text
    assert "half of the weight" not in text
    assert "9 of 12 queries visible" in text
    tree, text = drawn(weights, visible, index=5)
    assert told(tree)["turned"] is False
    assert "running sum" in text
    assert "sum over the queries" not in text


def test_nothing_visible_is_said_and_draws_no_bars():
    gone = torch.zeros(4, dtype=torch.bool)
    _, text = drawn(torch.zeros(4), gone, index=2, tokens=WORDS[:4])
    assert "Every key is masked: there is no weight." in text
    assert "<svg" not in text
    _, text = drawn(torch.zeros(4), gone, index=2, direction="key")
    assert "No query may attend this key." in text


# --- the table ----------------------------------------------------------------------------------


def test_the_strongest_come_with_position_weight_and_running_sum():
    weights, visible = row(50, seen=40)
    _, text = drawn(weights, visible, index=39, tokens=WORDS[:50])
    order = sorted(range(40), key=lambda at: -float(weights[at]))[:10]
    expected, total = [], 0.0
    for place in order:
        total += float(weights[place])
        expected.append(
            [f"w{place}", f"{place}", f"{float(weights[place]):.4g}", f"{100 * total:.1f} %"]
        )
    assert cells(text) == expected
    assert "the 10 largest weights" in text
    assert len(cells(drawn(weights, visible, top=3)[1])) == 3


# --- words --------------------------------------------------------------------------------------


def words(text):
    """(class, title, word) of every word shown."""
    found = re.findall(r'<span class="([^"]*)" title="([^"]*)">(.*?)</span>', text)
    return [
        (kind.split(), title, "".join(Tree(f"<p>{word}</p>").found[0][2]))
        for kind, title, word in found
    ]


def test_words_are_tinted_by_the_root_of_their_weight():
    weights = torch.tensor([1.0, 0.25, 0.0, 0.5]) / 2
    _, text = drawn(weights, torch.tensor([True, True, True, False]), index=1, tokens=list("abcd"))
    assert words(text) == [
        (["t31"], "key 0: 0.5", "a"),
        (["t16", "own"], "key 1: 0.125", "b"),
        (["t0"], "key 2: 0", "c"),
        (["gone"], "key 3: masked", "d"),
    ]
    assert "outlined: the query" in text


def test_without_tokens_there_are_no_words():
    _, text = drawn(row()[0])
    assert "line-words" not in text
    assert "<td>" in text


@pytest.mark.parametrize(
    ("index", "before", "after"), [(0, 0, 1000), (1500, 500, 500), (2999, 1000, 0), (900, 0, 1000)]
)
def test_of_many_words_the_nearest_are_shown_and_the_rest_counted(index, before, after):
    weights, _ = row(3000)
    _, text = drawn(weights, index=index, tokens=WORDS)
    shown = [word for _, _, word in words(text)]
    assert shown == WORDS[before : 3000 - after]
    assert (f"… {before:,} words before" in text) == bool(before)
    assert (f"{after:,} words after …" in text) == bool(after)
    assert len(text) < 220_000


def test_words_of_markup_are_text():
    tree, text = drawn(row(len(ODD))[0], index=4, tokens=ODD)
    assert not tree.all("script")
    assert not tree.all("b", **{"class": "x"})
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert words(text)[5][2] == '"><script>alert(1)</script>'
    assert words(text)[10][2] == "∅"


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_every_word_can_be_read_on_its_tint(colours):
    rules = re.findall(r"\.t(\d+)\{background:(#\w{6});color:(#\w{6})\}", tints(colours))
    assert [int(level) for level, _, _ in rules] == list(range(32))
    for _, ground, text in rules:
        low, high = sorted((luminance(ground), luminance(text)))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_luminance_and_ink_are_those_of_wcag():
    assert luminance("#000000") == 0
    assert luminance("#ffffff") == pytest.approx(1)
    assert luminance("#777777") == pytest.approx(0.184, abs=5e-4)  # 4.48 : 1 on white
    assert ink("#777777") == "#000000"
    assert ink("#0000ff") == "#ffffff"


def test_a_line_of_zeros_has_the_lowest_tint():
    line = line_of(torch.zeros(3), None, 0)
    assert [kind[0] for kind, _, _ in words(words_html(line, list("abc"), colours=LIGHT))] == [
        "t0"
    ] * 3


# --- refusals -----------------------------------------------------------------------------------


def test_tokens_of_another_number_are_refused():
    with pytest.raises(ConfigError, match="tokens=5: must be one for each of the 12 positions"):
        query_html(row()[0], None, index=0, colours=LIGHT, tokens=list("abcde"))


def test_a_position_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="query=12: must be from 0 to 11"):
        query_html(row()[0], None, index=12, colours=LIGHT)
