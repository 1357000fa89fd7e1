"""What torch dispatched: every operator, the bytes it created, and those it only copied."""

from __future__ import annotations

import gc

import torch

from mha_core.aten import DispatchRecorder
from mha_core.inputs import build_module, random_input
from tests.core.support import Listing, config, randn


def recorded(call):
    with DispatchRecorder() as recorder:
        result = call()
        operators = recorder.take()
    return result, operators, recorder


def test_it_records_what_an_independent_mode_lists():
    module, x = build_module(config()), random_input(config())
    with Listing() as listing, torch.no_grad():
        module(x, causal=True)
    with torch.no_grad():
        _, operators, _ = recorded(lambda: module(x, causal=True))
    assert [operator.name for operator in operators] == listing.names
    assert "aten.bmm" in listing.names


def test_taking_empties_the_list():
    with DispatchRecorder() as recorder:
        torch.ones(2)
        assert [operator.name for operator in recorder.take()] == ["aten.ones"]
        assert recorder.take() == ()


def test_a_view_allocates_nothing_and_a_result_its_own_bytes():
    x = randn(3, 5)
    _, (view, product), _ = recorded(lambda: x.t() * 2)
    assert (view.name, view.inputs, view.output) == ("aten.t", ((3, 5),), (5, 3))
    assert (view.allocated, view.copied) == (0, 0)
    assert (product.name, product.inputs, product.output) == ("aten.mul", ((5, 3),), (5, 3))
    assert (product.allocated, product.copied) == (3 * 5 * 8, 0)


def test_an_operator_in_place_allocates_nothing():
    x = randn(3, 5)
    _, (operator,), recorder = recorded(lambda: x.add_(1))
    assert operator.allocated == 0
    assert recorder.peak == 0


def test_a_hidden_copy_shows():
    x = randn(3, 5).t()
    _, (operator,), _ = recorded(x.contiguous)
    assert (operator.name, operator.copied, operator.allocated) == ("aten.clone", 120, 120)
    _, operators, _ = recorded(x.t().contiguous)
    assert operators == ()  # nothing to do


def test_a_cast_is_a_copy_of_the_bytes_it_writes():
    x = randn(3, 5)
    _, (operator,), _ = recorded(x.half)
    assert (operator.name, operator.copied) == ("aten._to_copy", 30)


def test_flops_are_two_a_multiplication_and_none_elsewhere():
    one, other = randn(3, 5), randn(5, 7)
    _, (product, root), _ = recorded(lambda: (one @ other).exp())
    assert (product.name, product.flops) == ("aten.mm", 2 * 3 * 5 * 7)
    assert (root.name, root.flops) == ("aten.exp", 0)


def test_operators_that_return_several_tensors_count_them_all():
    x = randn(3, 5)
    _, (operator,), _ = recorded(lambda: torch.max(x, dim=1))
    assert operator.allocated == 3 * 8 + 3 * 8
    _, (operator,), _ = recorded(lambda: torch.cat([x, x]))
    assert operator.inputs == ((3, 5), (3, 5))
    assert operator.allocated == 2 * 3 * 5 * 8


def test_live_and_peak_follow_what_is_alive():
    with DispatchRecorder() as recorder:
        a = torch.ones(100, dtype=torch.float64)
        assert recorder.live == 800
        b = a + 1
        assert recorder.live == 1600
        view = a[:10]
        del a
        assert recorder.live == 1600  # the view keeps the storage
        del view
        assert recorder.live == 800
        del b
    gc.collect()
    assert (recorder.live, recorder.peak) == (0, 1600)


def test_storage_that_was_there_before_is_never_counted():
    weight = randn(3, 5)
    _, operators, recorder = recorded(lambda: [weight.t(), weight.view(15), weight.add_(1)])
    assert sum(operator.allocated for operator in operators) == 0
    assert recorder.live == 0


def test_paused_it_records_nothing_and_what_is_kept_then_does_not_count_as_alive():
    with DispatchRecorder() as recorder:
        x = torch.ones(100)
        with recorder.paused():
            kept = x.detach()
            torch.ones(1000)
        del x
        gc.collect()
        assert recorder.live == 0
        assert recorder.peak == kept.nbytes == 400
        assert [operator.name for operator in recorder.take()] == ["aten.ones"]
