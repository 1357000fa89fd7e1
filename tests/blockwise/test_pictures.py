"""An overview made block by block is the pooled whole map, and its statistics are its own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mha_core.blockwise import LongMaps, overview
from mha_core.errors import ConfigError
from mha_core.maps import Pooling, pool, relative_to_uniform
from tests.blockwise.support import (
    FIGURES,
    STEPS,
    TOLERANCE,
    long_maps,
    pooled,
    same,
    stats,
    whole,
)

pytestmark = pytest.mark.usefixtures("small_blocks")
many = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
HOW = st.sampled_from(["max", "mean"])


@many
@given(long_maps(), st.integers(1, 40), HOW)
def test_the_weights_are_those_of_the_whole_map(long: LongMaps, limit: int, how: Pooling) -> None:
    made = overview(long, limit, how)
    assert same(made.pooled.values, pooled(long, limit, how, "softmax").values) <= TOLERANCE[
        long.q.dtype
    ] * _size(long)


@many
@given(long_maps(torch.float64), st.integers(1, 40), HOW, st.sampled_from(STEPS[:3]))
def test_so_are_the_scores_of_every_step(
    long: LongMaps, limit: int, how: Pooling, step: str
) -> None:
    made = overview(long, limit, how, step=step)  # type: ignore[arg-type]
    expected = pooled(long, limit, how, step)
    largest = max(1.0, float(whole(long, "scores").values.abs().max()))
    assert same(made.pooled.values, expected.values) <= 1e-12 * largest
    assert (made.pooled.factor, made.pooled.time) == (expected.factor, long.time)
    assert made.stats is None


@many
@given(long_maps(), HOW)
def test_the_statistics_are_exact(long: LongMaps, how: Pooling) -> None:
    made, expected = overview(long, 5, how).stats, stats(long)
    assert made is not None
    for figure in FIGURES:
        ours, theirs = getattr(made, figure), getattr(expected, figure)
        limit = 10 * TOLERANCE[long.q.dtype] * _size(long)
        assert ours == pytest.approx(theirs, rel=limit, abs=limit), figure


@many
@given(long_maps(), st.integers(1, 40), HOW)
def test_weights_times_visible_keys_are_pooled_as_such(
    long: LongMaps, limit: int, how: Pooling
) -> None:
    made = overview(long, limit, how).relative
    assert made is not None
    expected = pool(relative_to_uniform(whole(long, "softmax")), limit, how)
    assert same(made.values, expected.values) <= TOLERANCE[long.q.dtype] * long.time * _size(long)


@many
@given(long_maps(torch.float64))
def test_the_normaliser_is_the_log_of_the_sum_over_visible_keys(long: LongMaps) -> None:
    made = overview(long, 9).lse
    assert made is not None
    scores = whole(long, "mask").values
    expected = torch.logsumexp(scores, -1)
    assert torch.allclose(made, expected, rtol=1e-12, atol=1e-12)


def _size(long: LongMaps) -> float:
    """Rounding of a score moves a weight by so many times as much."""
    return max(1.0, float(whole(long, "scores").values.abs().max()))


def test_many_positions_at_once_in_real_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the sizes that run
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, 1501, 16, generator=generator) for _ in "qk")
    for causal in (False, True):
        long = LongMaps(q, k, None, causal)
        made = overview(long, 96)
        assert same(made.pooled.values, pooled(long, 96, "max", "softmax").values) < 1e-6


def test_an_even_spread_is_even() -> None:
    long = LongMaps(torch.zeros(1, 50, 4), torch.zeros(1, 50, 4), None, causal=True)
    made = overview(long, 50)
    assert made.stats is not None
    # Query i spreads over i + 1 keys: by hand, i/2 away on average.
    assert made.stats.distance[0] == pytest.approx(sum(i / 2 for i in range(50)) / 50)
    assert made.stats.effective_keys[0] == pytest.approx(25.5)
    assert made.stats.first[0] == pytest.approx(sum(1 / (i + 1) for i in range(50)) / 50)
    assert made.relative is not None
    assert same(made.relative.values[0].diagonal(), torch.ones(50)) < 1e-6


def test_scores_beyond_what_exp_can_hold() -> None:
    """exp(1000) overflows: the largest score must be taken off, in every block its own."""
    q = torch.tensor([[[1000.0], [-1000.0]]]).repeat(1, 20, 1)
    k = torch.linspace(-1, 1, 40)[None, :, None]
    long = LongMaps(q, k, 1.0)
    made = overview(long, 40)
    assert same(made.pooled.values, pooled(long, 40, "max", "softmax").values) < 1e-6
    assert made.stats is not None
    assert torch.tensor(made.stats.entropy).isfinite().all()


def test_statistics_may_be_left_out() -> None:
    long = LongMaps(torch.randn(2, 30, 4), torch.randn(2, 30, 4))
    made, full = overview(long, 8, stats=False), overview(long, 8)
    assert made.stats is None
    assert (made.pooled.values == full.pooled.values).all()
    assert made.nbytes > 0


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ConfigError, match="limit"):
        overview(LongMaps(torch.ones(1, 3, 2), torch.ones(1, 3, 2)), limit)


def test_a_step_that_needs_the_forward_is_refused() -> None:
    with pytest.raises(ConfigError, match="block by block"):
        overview(LongMaps(torch.ones(1, 3, 2), torch.ones(1, 3, 2)), 3, step="dropout")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("q", "k", "keep"),
    [
        ((2, 5, 4), (2, 6, 4), None),
        ((5, 4), (5, 4), None),
        ((2, 5, 4), (2, 5, 4), torch.ones(4, dtype=torch.bool)),
        ((2, 5, 4), (2, 5, 4), torch.ones(5)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    q: tuple[int, ...], k: tuple[int, ...], keep: torch.Tensor | None
) -> None:
    with pytest.raises(ConfigError, match="must be"):
        LongMaps(torch.ones(q), torch.ones(k), None, False, keep)


def test_half_types_are_refused() -> None:
    with pytest.raises(ConfigError, match="float32 or float64"):
        LongMaps(torch.ones(1, 3, 2).half(), torch.ones(1, 3, 2).half())
