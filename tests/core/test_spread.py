"""Spread of scores over d_k: √d_k without the scale, 1 with it; and the entropy of the weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mha_core import MHAConfig, trace_forward
from mha_core.scaling_charts import spread_charts, spread_table
from mha_core.spread import D_KS, entropy, of_trace, spreads
from tests.core.support import config


def test_scores_spread_by_the_root_of_d_k_and_scaled_ones_by_one():
    for one in spreads(64, seed=1, d_ks=(4, 16, 64, 256)):
        assert one.raw == pytest.approx(math.sqrt(one.d_k), rel=0.1)
        assert one.scaled == pytest.approx(1.0, rel=0.1)
        assert one.raw / one.scaled == pytest.approx(math.sqrt(one.d_k), rel=1e-4)


def test_without_the_scale_entropy_collapses_and_with_it_stays():
    found = spreads(64, d_ks=(1, 16, 1024))
    raw = [one.raw_entropy for one in found]
    assert raw[0] > raw[1] > raw[2]
    assert raw[2] < 0.3
    # Scores of a normal with variance 1: entropy near ln(keys) - 1/2.
    for one in found[1:]:
        assert one.scaled_entropy == pytest.approx(math.log(64) - 0.5, abs=0.1)


def test_d_k_of_one_is_scaled_by_one():
    (one,) = spreads(8, d_ks=(1,))
    assert (one.raw, one.raw_entropy) == (one.scaled, one.scaled_entropy)


def test_the_same_seed_gives_the_same_and_leaves_torchs_own_stream_alone():
    before = torch.get_rng_state()
    assert spreads(6, seed=3, d_ks=(2,)) == spreads(6, seed=3, d_ks=(2,))
    assert spreads(6, seed=3, d_ks=(2,)) != spreads(6, seed=4, d_ks=(2,))
    assert torch.equal(before, torch.get_rng_state())


def test_entropy_of_even_and_of_one_hot_rows():
    assert entropy(torch.full((2, 5), 0.2)) == pytest.approx(math.log(5))
    assert entropy(torch.eye(4)) == 0.0
    assert entropy(torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])) == pytest.approx(
        math.log(2) / 2
    )


@pytest.mark.parametrize("causal", [False, True])
def test_a_runs_own_spread_is_of_its_scores_before_the_mask(causal):
    trace = trace_forward(config(causal=causal), profile=False)
    one = of_trace(trace)
    scores = trace.tensor("scores")[0].numpy()
    assert one.raw == pytest.approx(scores.std())
    assert one.scaled == pytest.approx(scores.std() / math.sqrt(7))
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    assert one.raw_entropy == pytest.approx(-(weights * np.log(weights)).sum(-1).mean())
    assert (one.d_k, one.keys) == (7, 5)


def test_random_weights_give_scaled_scores_of_about_one():
    trace = trace_forward(MHAConfig(batch=1, time=64, d_model=256, heads=4), profile=False)
    assert of_trace(trace).scaled == pytest.approx(1.0, rel=0.2)


def test_charts_and_table_are_the_numbers():
    found = spreads(6)
    own = of_trace(trace_forward(config(), profile=False))
    deviation, nats = spread_charts(found, own)
    assert tuple(one.d_k for one in found) == D_KS
    raw = next(series for series in deviation.series if series.name == "q · k")
    assert raw.y == tuple(one.raw for one in found)
    here = next(series for series in deviation.series if "this run" in series.name)
    assert (here.x, here.y) == ((7.0,), (own.scaled,))
    ceiling = next(series for series in nats.series if "ln 6" in series.name)
    assert set(ceiling.y) == {math.log(6)}
    rows = spread_table(found)
    assert list(rows["standard deviation"]) == [one.raw for one in found]
    assert list(rows["sqrt(d_k)"]) == [math.sqrt(one.d_k) for one in found]
