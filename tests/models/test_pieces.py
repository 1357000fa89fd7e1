"""Tokens as a person reads them."""

from __future__ import annotations

import pytest

from mha_core.models.pieces import pieces


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (["[CLS]", "un", "##believ", "##able"], ["[CLS]", "un", "·believ", "·able"]),
        (["▁Hello", "▁wor", "ld", "▁"], ["Hello", "wor", "ld", "▁"]),
        (["Hello", "ĠMurray", "Ċ"], ["Hello", "␣Murray", "↵"]),
        (["#", "##", "a"], ["#", "##", "a"]),
        (["", " "], ["∅", "␣"]),
    ],
)  # fmt: skip
def test_pieces(tokens, shown):
    assert pieces(tokens) == tuple(shown)
