"""Tiles of all heads: in the order given, one chosen, each with its number."""

from __future__ import annotations

import pytest

from mha_core.figures.tiles_html import Tile, tiles_html
from mha_core.palette import DARK, LIGHT
from tests.figures.support import Tree

PICTURES = [Tile(2, "data:a", "3.01 keys"), Tile(0, "data:b", "45.0 %"), Tile(1, "data:c", "")]


def made(**changes) -> str:
    how = {"chosen": 0, "masked": False, "side": 180, "colours": LIGHT, "row": False} | changes
    return tiles_html(PICTURES, **how)


def test_each_head_in_the_order_given_with_its_number_and_picture():
    tree = Tree(made())
    assert tree.balanced
    tiles = tree.all("figure")
    assert [(about["data-pick"], text) for about, text in tiles] == [
        ("2", "head 23.01 keys"), ("0", "head 045.0 %"), ("1", "head 1"),
    ]  # fmt: skip
    assert [about["src"] for about, _ in tree.all("img")] == ["data:a", "data:b", "data:c"]
    assert [about["aria-selected"] for about, _ in tiles] == ["false", "true", "false"]
    assert tiles[0][0]["aria-label"] == "head 2, 3.01 keys"


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_a_head_has_its_colour(colours):
    for about, _ in Tree(made(colours=colours)).all("figure"):
        assert about["style"] == f"--head:{colours.head(int(about['data-pick']))}"


@pytest.mark.parametrize(("side", "room"), [(180, None), (112, "little"), (76, "least")])
def test_small_ones_say_how_little_room_they_have(side, room):
    ((about, _),) = Tree(made(side=side)).all("div")[:1]
    assert about.get("data-room") == room
    assert about["style"] == f"--tile:{side}px"
    assert "data-row" in Tree(made(row=True)).all("div")[0][0]


def test_masked_cells_are_hatched_behind_the_pictures():
    assert made(masked=True).count('class="pic some"') == 3
    assert 'class="pic some"' not in made()
