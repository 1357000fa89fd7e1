"""Statistics of a head against a naive loop in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, maps, masks, trace_forward
from mha_core.head_stats import head_stats, keys_text
from mha_core.maps import HeadMaps
from tests.core.support import HEADS, TIME, config, randn

FIELDS = ("entropy", "effective_keys", "distance", "first", "self", "previous")


def by_loop(weights):
    """(time, time) -> every statistic, the mean over the queries that see a key."""
    rows = []
    for query, row in enumerate(weights.double().tolist()):
        if sum(row) == 0:
            continue
        entropy = -sum(share * math.log(share) for share in row if share > 0)
        rows.append(
            {
                "entropy": entropy,
                "effective_keys": math.exp(entropy),
                "distance": sum(share * abs(query - key) for key, share in enumerate(row)),
                "first": row[0],
                "self": row[query],
                "previous": row[query - 1] if query > 0 else 0.0,
            }
        )
    return {field: sum(row[field] for row in rows) / len(rows) for field in FIELDS}


def attended(heads, time, seed, visible=None):
    scores = 2 * randn(heads, time, time, seed=seed, dtype=torch.float32)
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    return HeadMaps("softmax", scores.softmax(-1).nan_to_num(0.0), visible)


@given(st.integers(1, 4), st.integers(1, 19), st.booleans(), st.integers(0, 2**16))
def test_every_statistic_is_what_a_loop_computes(heads, time, causal, seed):
    visible = masks.causal(time).expand(heads, -1, -1) if causal else None
    made = attended(heads, time, seed, visible)
    stats = head_stats(made)
    for head in range(heads):
        for field, expected in by_loop(made.values[head]).items():
            assert getattr(stats, field)[head] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_query_without_a_key_does_not_count():
    visible = torch.ones(HEADS, 7, 7, dtype=torch.bool)
    visible[:, 2:4] = False
    made = attended(HEADS, 7, 0, visible)
    for head, expected in enumerate(map(by_loop, made.values)):
        for field in FIELDS:
            assert getattr(head_stats(made), field)[head] == pytest.approx(
                expected[field], rel=1e-5
            )


def test_a_map_without_a_single_key_is_all_zeros_and_no_nan():
    stats = head_stats(HeadMaps("softmax", torch.zeros(2, 3, 3), None))
    assert all(getattr(stats, field) == [0, 0] for field in FIELDS)


def test_an_even_map_has_the_entropy_of_its_number_of_keys():
    stats = head_stats(HeadMaps("softmax", torch.full((1, 11, 11), 1 / 11), None))
    assert stats.entropy == [pytest.approx(math.log(11))]
    assert stats.effective_keys == [pytest.approx(11)]
    assert stats.first == stats.self == [pytest.approx(1 / 11)]
    assert stats.previous == [pytest.approx(10 / 11 / 11)]


def test_a_head_that_looks_at_itself_one_that_looks_back_and_one_that_looks_at_the_start():
    time = 7
    itself, back, start = torch.eye(time), torch.zeros(time, time), torch.zeros(time, time)
    back[0, 0] = 1
    back[1:, :-1] = torch.eye(time - 1)
    start[:, 0] = 1
    stats = head_stats(HeadMaps("softmax", torch.stack([itself, back, start]), None))
    assert stats.entropy == [0, 0, 0]
    assert stats.effective_keys == [1, 1, 1]
    assert stats.self == pytest.approx([1, 1 / 7, 1 / 7])
    assert stats.previous == pytest.approx([0, 6 / 7, 1 / 7])
    assert stats.first == pytest.approx([1 / 7, 2 / 7, 1])
    assert stats.distance == pytest.approx([0, 6 / 7, 3])


def test_the_statistics_of_a_trace_are_those_of_its_weights():
    trace = trace_forward(config(causal=True))
    stats = head_stats(maps.head_maps(trace, "softmax", 1))
    for head in range(HEADS):
        expected = by_loop(trace.weights[1, head])
        assert stats.entropy[head] == pytest.approx(expected["entropy"], rel=1e-5)
        assert 1 <= stats.effective_keys[head] <= TIME


def test_scores_have_no_such_statistics():
    trace = trace_forward(config())
    with pytest.raises(ConfigError, match="step='scale': must be weights"):
        head_stats(maps.head_maps(trace, "scale"))


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (1.0, "1.00 key"), (2.4, "2.40 keys"), (9.996, "10.0 keys"), (12.34, "12.3 keys"),
        (99.96, "100 keys"), (4096.4, "4,096 keys"),
    ],
)  # fmt: skip
def test_effective_keys_are_written_in_one_way(keys, shown):
    assert keys_text(keys) == shown
