"""W_q in pictures: the pixels are the real numbers, in the colour of their head."""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from mha_core.figures.projection_html import facts_table, head_lesson, headline, matrices
from mha_core.figures.weight_pictures import pictures
from mha_core.inputs import build_module, random_input
from mha_core.palette import DARK, LIGHT, rgb
from mha_core.projections import LABELS, compare, one_head
from tests.core.support import config, randn


def text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def pixels(address: str) -> np.ndarray:
    assert address.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",", 1)[1]))))


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_a_pixel_is_a_numbers_size_in_its_heads_colour(colours):
    weight = randn(6, 6)
    made = pictures(weight, 3, colours)
    assert made.pooled == 1
    ground = np.array(rgb(colours.background), dtype=float)
    for head in range(3):
        full = np.array(rgb(colours.head(head)), dtype=float)
        share = np.sqrt((weight[2 * head : 2 * head + 2].abs() / weight.abs().max()).numpy())
        expected = ground + share[..., None] * (full - ground)  # (out, in): rows of the weight
        rows = pixels(made.rows[head])
        assert np.abs(rows - expected).max() <= 0.51
        # x @ W has the transpose: the head's rows are columns there.
        assert np.array_equal(pixels(made.columns[head]), rows.transpose(1, 0, 2))


def test_the_largest_number_has_the_heads_own_colour():
    weight = torch.zeros(4, 4)
    weight[3, 1] = -2.0
    made = pictures(weight, 2, LIGHT)
    assert tuple(pixels(made.rows[1])[1, 1]) == rgb(LIGHT.head(1))
    assert tuple(pixels(made.rows[1])[0, 0]) == rgb(LIGHT.background)


def test_a_matrix_of_zeros_is_the_ground():
    assert (pixels(pictures(torch.zeros(4, 4), 2, DARK).rows[0]) == rgb(DARK.background)).all()


@pytest.mark.parametrize(
    ("d_model", "heads", "each", "pooled"),
    [(128, 4, 32, 1), (256, 4, 32, 2), (192, 64, 2, 2), (256, 256, 1, 2), (260, 2, 64, 3)],
)
def test_large_matrices_are_pooled_head_by_head(d_model, heads, each, pooled):
    weight = torch.zeros(d_model, d_model)
    weight[: d_model // heads] = 1.0  # head 0 alone
    made = pictures(weight, heads, LIGHT)
    assert made.pooled == pooled
    assert len(made.rows) == heads
    first, second = pixels(made.rows[0]), pixels(made.rows[1])
    assert first.shape == (each, 128, 3)
    assert (first == rgb(LIGHT.head(0))).all()
    assert (second == rgb(LIGHT.background)).all()


def shown(heads: int = 3, picked: int = 1) -> str:
    module = build_module(config(heads=heads))
    drawn = {n: pictures(getattr(module, f"W_{n}").weight, heads, LIGHT) for n in "qkv"}
    return matrices(drawn, d_model=21, heads=heads, picked=picked, colours=LIGHT)


def test_every_strip_can_be_chosen_and_says_what_it_is():
    found = shown()
    strips = re.findall(
        r'data-pick="(\d)" tabindex="0" role="button" aria-pressed="(\w+)" aria-label="([^"]+)"',
        found,
    )
    assert len(strips) == 3 * 6  # flat, as kept, cut; and q, k and v fused
    assert [pick for pick, *_ in strips] == ["0", "1", "2"] * 6
    assert all((pressed == "true") == (pick == "1") for pick, pressed, _ in strips)
    labels = [label for pick, _, label in strips if pick == "1"]
    assert labels == [
        "head 1: columns 7 to 13", "head 1: rows 7 to 13", "head 1: columns 7 to 13",
        *["head 1: columns 7 to 13"] * 3,
    ]  # fmt: skip
    plain = re.sub(r"<[^>]+>", "", found)
    for words in (
        "(21, 21)",
        "3 × (21, 7)",
        "(21, 63)",
        "as nn.Linear keeps it: a head is d_k rows",
    ):
        assert words in plain


def test_many_heads_label_the_chosen_alone():
    labels = re.findall(r"<i>(\d*)</i>", shown(heads=21, picked=5))
    assert {label for label in labels if label} == {"5"}


def test_the_lesson_has_the_real_numbers():
    module, x = build_module(config()), random_input(config())
    one = one_head(module, x, 2)
    found = head_lesson(one, 2, d_model=21, colours=LIGHT)
    plain = re.sub(r"<[^>]+>", " ", found)
    assert "columns 14 to 20 of W_q" in plain
    assert "rows 14 to 20 of W_q.weight" in plain
    assert "elements 294 to 440" in plain
    q = module.W_q(x)[0, 0, 14].item()
    assert plain.count(f"{q:.4g}".replace("-", "−")) >= 2  # alone, and in the flat product


def test_the_table_has_a_row_a_way():
    made = config()
    facts = compare(build_module(made), random_input(made))
    found = facts_table(facts, "float64", LIGHT)
    rows = [
        [text(cell) for cell in re.findall(r"<td>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", found)[1:]
    ]
    assert [row[0] for row in rows] == list(LABELS.values())
    assert [row[1] for row in rows] == ["6", "18", "18", "2"]
    assert rows[1][2] == "129 addmm + 3 stack"  # 12 kernels, and which
    assert [row[5] for row in rows] == ["1,386"] * 4
    assert rows[1][6] == "9 × (7, 21)"
    assert rows[3][6] == "1 × (63, 21)"
    assert all("< 1e−12 ✓" in row[4] for row in rows[1:])


def test_a_difference_that_is_too_large_is_marked():
    made = config()
    facts = compare(build_module(made), random_input(made))
    wrong = [replace(one, exact=2e-9) for one in facts]
    found = facts_table(wrong, "float64", LIGHT)
    assert "2e−09 ≥ 1e−12" in found
    assert found.count("✗") == 3


def test_the_headline_has_the_sizes():
    plain = re.sub(r"<[^>]+>", "", headline(config(), LIGHT))
    assert plain.startswith("(2, 5, 21) @ W_q(21, 21) →(2, 5, 21)")
    assert "It is 3 of (21, 7) side by side" in plain
