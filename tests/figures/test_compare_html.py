"""Two windows side by side: one scale where they measure the same, and their difference."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
import torch

from mha_core.figures.compare_html import Side, compare_html
from mha_core.palette import LIGHT
from mha_core.patch import patch_of
from tests.figures.support import ODD, Tree


def side(title="A", name="weight", *, seed=0, size=(12, 15), at=0, limit=48, causal=False, **more):
    values = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    visible = torch.ones(size, dtype=torch.bool).tril() if causal else None
    queries, keys = (at, at + size[0]), (0, size[1])
    patch = patch_of(values, visible, queries, keys, limit, time=200)
    return Side(patch, title, name, **more)


def drawn(a, b, **how):
    text = compare_html(a, b, colours=LIGHT, **how)
    tree = Tree(text)
    assert tree.balanced
    maps = [at for at, _ in tree.all("div", **{"class": "pic"})]
    values = [np.frombuffer(base64.b64decode(at["data-z"]), "<f4") for at in maps]
    scales = [text for _, text in tree.all("div", **{"class": "patch-scale"})]
    return tree, text, maps, values, scales


def test_a_b_and_their_difference_with_one_scale_for_the_two():
    a, b = side("A: head 0"), side("B: head 3", seed=1)
    _, text, maps, values, scales = drawn(a, b)
    assert len(maps) == 3
    np.testing.assert_array_equal(values[0], a.patch.values.ravel())
    np.testing.assert_array_equal(values[1], b.patch.values.ravel())
    np.testing.assert_array_equal(values[2], (b.patch.values - a.patch.values).ravel())
    assert scales[0] == scales[1] != scales[2]
    largest = np.abs(values[2]).max()
    assert f"B − A, largest {largest:.3g}" in text
    assert scales[2] == f"B − A−{largest:.2g}{largest:.2g}"
    assert json.loads(maps[2]["data-hover"])["name"] == "B − A"


def test_different_units_have_their_own_scales_and_no_difference():
    a, b = side("A: scores", "score", weights=False), side("B: weights", seed=1)
    _, text, maps, _, scales = drawn(a, b)
    assert len(maps) == 2
    assert scales[0] != scales[1]
    assert "B − A is not defined: a weight less a score means nothing." in text


@pytest.mark.parametrize(
    ("other", "field"),
    [({"at": 3}, "queries"), ({"size": (12, 20)}, "keys"), ({"limit": 6}, "factors")],
)
def test_different_windows_have_no_difference(other, field):
    _, text, maps, _, scales = drawn(side(), side("B", **other))
    assert len(maps) == 2
    assert scales[0] == scales[1]
    assert f"B − A is not defined: {field} differ." in text


def test_a_masked_weight_counts_as_0_in_the_difference():
    a, b = side(), side("B", causal=True)
    _, _, _, values, _ = drawn(a, b)
    expected = np.where(np.isnan(b.patch.values), -a.patch.values, 0).ravel()
    np.testing.assert_allclose(values[2], expected, atol=1e-7)


def test_of_pooled_maps_it_says_what_the_difference_is_of():
    _, text, maps, _, _ = drawn(side(limit=5), side("B", seed=2, limit=5))
    assert json.loads(maps[2]["data-hover"])["name"] == "max of B − max of A"
    assert "each cell: max of 3 × 3 weights of B, less that of A" in text


def test_titles_and_tokens_are_text():
    tokens = list(ODD) * 14
    tree, text, _, _, _ = drawn(side("A <b>x</b>", tokens=tokens), side('B "', tokens=tokens))
    assert "A &lt;b&gt;x&lt;/b&gt;" in text
    assert not tree.all("script")
    assert len(re.findall("<b>", text)) == 3  # the three headings


def test_boxes_can_be_chosen_on_all_or_on_none():
    assert all("data-zoom" in at for at in drawn(side(), side("B"))[2])
    assert not any("data-zoom" in at for at in drawn(side(), side("B"), zoom=False)[2])
