"""The factor on the scores: sampled statistics against what theory says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mha_core import ConfigError
from mha_core.mask_lab.saturation import SCALES, WIDTHS, factor, measured, sampled


def test_the_factors():
    # karpathy/ng-video-lecture PR#6: d_model 512, h 8.
    assert factor("1/√d_k", 64, 8) == 0.125
    assert factor("1/√d_model", 64, 8) == pytest.approx(0.04419, abs=1e-5)
    assert factor("none", 64, 8) == 1
    with pytest.raises(ConfigError, match="scale='1/h'"):
        factor("1/h", 64, 8)


def test_a_raw_score_of_64_against_0():
    scores = torch.tensor([[64.0, 0.0]])
    right, _, wrong = (measured(scores, scale, 64, 8) for scale in SCALES)
    assert right.largest == pytest.approx(0.99966, abs=1e-5)
    assert wrong.largest == pytest.approx(0.9442, abs=1e-4)
    assert right.saturated == wrong.saturated == 1


def test_the_spread_follows_the_root_of_d_k():
    for one in sampled(4, seed=3):
        expected = math.sqrt(one.d_k) * one.factor
        # The spread of 16,384 products is sure to a few percent; fewer at d_k 1, which has tails.
        assert one.std == pytest.approx(expected, rel=0.1)
        assert one.factor == factor(one.scale, one.d_k, 4)
        assert 0 <= one.entropy <= math.log(one.keys) + 1e-6
        assert one.keys == 64


def test_statistics_are_those_of_numpy():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(3, 5, 7))
    found = measured(torch.from_numpy(scores), "1/√d_k", 4, 2)
    scaled = scores / 2
    weights = np.exp(scaled) / np.exp(scaled).sum(-1, keepdims=True)
    entropy = -(weights * np.log(weights)).sum(-1)
    assert found.std == pytest.approx(scaled.std(), rel=1e-5)
    assert found.entropy == pytest.approx(entropy.mean(), rel=1e-5)
    assert found.effective_keys == pytest.approx(np.exp(entropy).mean(), rel=1e-5)
    assert found.largest == pytest.approx(weights.max(-1).mean(), rel=1e-5)
    assert found.saturated == pytest.approx((weights.max(-1) > 0.9).mean())


def test_what_passes_is_the_trace_of_softmaxs_jacobian():
    scores = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    found = measured(scores[None], "none", 1, 1)
    assert found.passes == pytest.approx(float(jacobian.trace()), rel=1e-5)


def test_unscaled_saturates_and_scaled_does_not():
    by = {(one.d_k, one.scale): one for one in sampled(8)}
    assert len(by) == len(WIDTHS) * len(SCALES)
    assert by[512, "none"].saturated > 0.5
    assert by[512, "none"].passes < 0.2
    assert by[512, "1/√d_k"].saturated == 0
    assert by[512, "1/√d_model"].entropy > by[512, "1/√d_k"].entropy > by[512, "none"].entropy
    flat = [by[d_k, "1/√d_k"].entropy for d_k in WIDTHS]
    assert max(flat) - min(flat) < 0.2
    # d_model = d_k at one head: the two factors are one.
    one = {(s.d_k, s.scale): s.std for s in sampled(1)}
    assert all(one[d_k, "1/√d_k"] == one[d_k, "1/√d_model"] for d_k in WIDTHS)


def test_the_seed_and_nothing_else_makes_the_sample():
    torch.manual_seed(1)
    first = sampled(2, keys=16, seed=4)
    torch.manual_seed(2)
    assert sampled(2, keys=16, seed=4) == first
    assert sampled(2, keys=16, seed=5) != first


@pytest.mark.parametrize("keys", [1, 1025, 2.5])
def test_keys_out_of_range_are_refused(keys):
    with pytest.raises(ConfigError, match=r"keys=.*from 2 to 1024"):
        sampled(2, keys=keys)
