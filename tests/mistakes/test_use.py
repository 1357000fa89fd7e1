"""Mistakes in use: dropout, averaged maps, batch_first; with the values people reported."""

from __future__ import annotations

import pytest
import torch

from mha_core.mistakes import MISTAKES, examine
from tests.mistakes.support import bench, even, far, multihead, run


def test_dropout_in_evaluation_scales_what_it_leaves():
    # pytorch/pytorch#42929: p 0.1 over 10 even keys leaves entries of 1/9, or 0.
    module, x = even(time=10)
    assert not module.training
    torch.manual_seed(0)
    _, weights = run("wrong", "dropout_left_on", module, x)
    values = sorted({round(float(value), 4) for value in weights.flatten()})
    assert values == [0.0, 0.1111]
    sums = {round(float(total), 4) for total in weights.sum(-1).flatten()}
    assert sums <= {round(n / 9, 4) for n in range(11)}
    assert sums != {1.0}


def test_the_repair_asks_the_module_for_its_mode():
    module, x = bench()
    right = MISTAKES["dropout_left_on"].right
    with torch.no_grad():
        assert torch.equal(right(module, x)[0], right(module, x)[0])
        module.train()
        torch.manual_seed(0)
        assert not torch.equal(right(module, x)[0], right(module, x)[0])


def test_averaged_weights_are_the_mean_of_the_heads_of_an_item():
    # pytorch/pytorch#34537: (batch, time, time) by default.
    module, x = bench()
    weights = multihead(module, x)[1]
    wrong, right = (run(which, "averaged", module, x) for which in ("wrong", "right"))
    assert far(wrong[1], weights[0].mean(0)) <= 1e-12
    assert far(right[1], weights[0, 0]) <= 1e-12
    assert torch.equal(wrong[0], right[0]) or far(wrong[0], right[0]) <= 1e-12
    found = examine(MISTAKES["averaged"], module, x)
    assert found.betrayed == "nothing"
    assert found.weight_change == pytest.approx(far(weights[0].mean(0), weights[0, 0]))


def test_without_batch_first_items_attend_to_one_another():
    # pytorch/pytorch#122959: batch 4, time 4: every shape is the same.
    module, x = bench(batch=4, time=4, d_model=8, heads=2)
    found = examine(MISTAKES["batch_second"], module, x)
    assert found.betrayed == "nothing"
    edited = x.clone()
    edited[3] += 1.0
    for which, moves in (("wrong", True), ("right", False)):
        before, after = (run(which, "batch_second", module, at)[0][0] for at in (x, edited))
        assert (far(before, after) > 0.01) == moves


def test_the_weights_of_swapped_axes_are_over_the_batch():
    module, x = bench()
    found = examine(MISTAKES["batch_second"], module, x)
    assert found.wrong.shapes == ((2, 5, 21), (5, 3, 2, 2))
    assert found.right.shapes == ((2, 5, 21), (2, 3, 5, 5))
    assert found.weight_change is None
