"""A window, rows, one query, one key: exactly the part of the whole map."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mha_core.blockwise import LongMaps, column, overview, rows, window
from mha_core.blockwise.detail import normalisers, visible_column, visible_row
from mha_core.errors import ConfigError
from mha_core.maps import Pooling
from mha_core.patch import patch_of
from tests.blockwise.support import STEPS, long_maps, same, visible, whole

pytestmark = pytest.mark.usefixtures("small_blocks")
many = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def windows(draw: st.DrawFn) -> tuple[LongMaps, int, tuple[int, int], tuple[int, int]]:
    long = draw(long_maps(torch.float64))
    spans = []
    for _ in range(2):
        start = draw(st.integers(0, long.time - 1))
        spans.append((start, draw(st.integers(start + 1, long.time))))
    return long, draw(st.integers(0, long.heads - 1)), spans[0], spans[1]


@many
@given(
    windows(), st.integers(1, 30), st.sampled_from(["max", "mean"]), st.sampled_from(STEPS),
    st.booleans(),
)  # fmt: skip
def test_a_window_is_that_part_pooled(
    part: tuple[LongMaps, int, tuple[int, int], tuple[int, int]],
    limit: int, how: Pooling, step: str, known: bool,
) -> None:  # fmt: skip
    long, head, queries, keys = part
    lse = overview(long, 3).lse if known else None
    found = window(long, head, queries, keys, limit, how, step=step, lse=lse)  # type: ignore[arg-type]
    full = whole(long, step).head(head)
    where = (0, slice(*queries), slice(*keys))
    seen = None if full.visible is None else full.visible[where]
    expected = patch_of(full.values[where], seen, queries, keys, limit, how, time=long.time)
    largest = max(1.0, float(whole(long, "scores").values.abs().max()))
    assert same(found.values, expected.values) <= 2e-7 * largest  # patches are float32
    assert (found.queries, found.keys, found.factors) == (queries, keys, expected.factors)


def test_a_window_of_single_cells_is_exact() -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = (torch.randn(1, 60, 8, generator=generator, dtype=torch.float64) for _ in "qk")
    long = LongMaps(q, k, None, causal=True)
    found = window(long, 0, (30, 50), (10, 45), 96)
    expected = whole(long, "softmax").values[0, 30:50, 10:45].clone()
    expected[~visible(long)[30:50, 10:45]] = torch.nan
    assert found.exact
    assert same(found.values, expected) < 1e-12


def test_relative_to_an_even_spread() -> None:
    long = LongMaps(torch.zeros(1, 30, 4), torch.zeros(1, 30, 4), None, causal=True)
    found = window(long, 0, (7, 29), (0, 7), 4, relative=True)
    assert same(found.values, torch.ones(4, 4)) < 1e-6


@many
@given(windows(), st.sampled_from(STEPS))
def test_rows_are_those_of_the_forward(
    part: tuple[LongMaps, int, tuple[int, int], tuple[int, int]], step: str
) -> None:
    long, head, queries, _ = part
    found = rows(long, head, queries, step)  # type: ignore[arg-type]
    expected = whole(long, step).values[head, slice(*queries)]
    assert torch.equal(found.isneginf(), expected.isneginf())
    largest = max(1.0, float(whole(long, "scores").values.abs().max()))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12 * largest)


@many
@given(windows(), st.booleans())
def test_one_query_and_one_key(
    part: tuple[LongMaps, int, tuple[int, int], tuple[int, int]], known: bool
) -> None:
    long, head, (at, _), (key, _) = part
    lse = overview(long, 3).lse if known else None
    weights, seen = whole(long, "softmax").values[head], visible(long)
    largest = max(1.0, float(whole(long, "scores").values.abs().max()))
    found = column(long, head, key, lse=lse)
    assert torch.allclose(found, weights[:, key], rtol=0, atol=1e-12 * largest)
    assert torch.equal(visible_row(long, at), seen[at])
    assert torch.equal(visible_column(long, key), seen[:, key])
    assert torch.equal(visible_row(long, at, "scale"), torch.ones(long.time, dtype=torch.bool))


@many
@given(windows())
def test_normalisers_of_some_queries(
    part: tuple[LongMaps, int, tuple[int, int], tuple[int, int]],
) -> None:
    long, head, queries, _ = part
    expected = torch.logsumexp(whole(long, "mask").values[head, slice(*queries)], -1)
    assert torch.allclose(normalisers(long, head, queries), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("span", "rule", "works"),
    [
        ((5, 3), "reversed", "3–5"),
        ((4, 4), "empty", "4–5"),
        ((-2, 4), "within 0–10", "0–4"),
        ((6, 40), "within 0–10", "6–10"),
        ((12, 40), "within 0–10", "9–10"),
    ],
)
def test_a_range_that_is_none_is_refused(span: tuple[int, int], rule: str, works: str) -> None:
    long = LongMaps(torch.ones(1, 10, 2), torch.ones(1, 10, 2))
    for ask in (
        lambda: window(long, 0, span, (0, 10), 5),
        lambda: window(long, 0, (0, 10), span, 5),
        lambda: rows(long, 0, span),
    ):
        with pytest.raises(ConfigError, match=rule) as caught:
            ask()
        assert works in str(caught.value)


def test_no_such_head() -> None:
    long = LongMaps(torch.ones(2, 4, 2), torch.ones(2, 4, 2))
    with pytest.raises(ConfigError, match="head=2"):
        rows(long, 2, (0, 1))
    with pytest.raises(ConfigError, match="head=-1"):
        window(long, -1, (0, 1), (0, 1), 3)
