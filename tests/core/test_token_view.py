"""Padding left out, special tokens hidden."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError
from mha_core.head_stats import head_stats
from mha_core.maps import HeadMaps
from mha_core.token_view import hide, without_padding

H, TIME = 3, 7


def weights(visible=None, seed=0):
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(H, TIME, TIME, generator=rng)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1)


def test_padded_queries_and_keys_are_absent_and_the_rest_is_the_same():
    seen = (torch.arange(TIME) < 5).expand(H, TIME, TIME)
    maps = HeadMaps("softmax", weights(seen), seen)
    left = without_padding(maps, 5)
    assert not left.visible[:, 5:].any()
    assert not left.visible[:, :, 5:].any()
    assert torch.equal(left.values[:, :5], maps.values[:, :5])
    small = HeadMaps("softmax", maps.values[:, :5, :5], None)
    assert head_stats(left).entropy == pytest.approx(head_stats(small).entropy, rel=1e-6)


def test_without_padding_nothing_changes():
    maps = HeadMaps("softmax", weights(), None)
    assert without_padding(maps, TIME) is maps


@given(st.sets(st.integers(0, TIME - 1), min_size=1), st.integers(0, 99))
def test_rows_of_what_is_kept_sum_to_one_in_the_same_proportions(kept, seed):
    keep = sorted(kept)
    whole = weights(seed=seed)
    part = hide(HeadMaps("softmax", whole, None), keep).values
    assert part.shape == (H, len(keep), len(keep))
    assert torch.allclose(part.sum(-1), torch.ones(H, len(keep)), atol=1e-6)
    old = whole[:, keep][:, :, keep]
    assert torch.allclose(part * old.sum(-1, keepdim=True), old, atol=1e-6)


def test_scores_are_not_renormalised():
    scores = torch.randn(H, TIME, TIME)
    part = hide(HeadMaps("scores", scores, None), [1, 4])
    assert torch.equal(part.values, scores[:, [1, 4]][:, :, [1, 4]])


def test_a_row_without_weight_on_what_is_kept_stays_zero():
    values = torch.zeros(1, 3, 3)
    values[:, :, 0] = 1.0
    assert torch.equal(hide(HeadMaps("softmax", values, None), [1, 2]).values, torch.zeros(1, 2, 2))


def test_hiding_everything_is_refused():
    with pytest.raises(ConfigError, match="must be left"):
        hide(HeadMaps("softmax", weights(), None), [])
