"""Mistakes with numbers: softmax, scale, fill, dead rows; with the values people reported."""

from __future__ import annotations

import math

import pytest
import torch

from mha_core.mistakes import MISTAKES
from mha_core.mistakes.examine import examine
from mha_core.mistakes.measures import maps_seen
from tests.mistakes.support import bench, even, far, run


def test_softmax_over_the_queries_leaves_rows_that_sum_to_anything():
    # PetrochukM/PyTorch-NLP#2, causal, time 4, all scores zero.
    module, x = even()
    sums = run("wrong", "softmax_axis", module, x)[1][0, 0].sum(-1)
    assert far(sums, torch.tensor([0.25, 0.5833, 1.0833, 2.0833])) <= 1e-4
    assert far(run("right", "softmax_axis", module, x)[1].sum(-1), torch.ones(1, 2, 4)) <= 1e-12


def test_a_second_softmax_gives_masked_keys_a_share():
    # zyy-2001/DisKT#6: [1, 0, 0, 0] becomes [.4754, .1749, .1749, .1749].
    module, x = even()
    wrong, right = (run(which, "softmax_twice", module, x)[1] for which in ("wrong", "right"))
    assert right[0, 0, 0].tolist() == [1, 0, 0, 0]
    assert far(wrong[0, 0, 0], torch.tensor([0.4754, 0.1749, 0.1749, 0.1749])) <= 1e-4
    assert far(wrong.sum(-1), torch.ones(1, 2, 4)) <= 1e-12


def aligned(d_model, heads, dot):
    """A module and two positions: query 0 of every head scores `dot` with key 0, 0 with key 1."""
    module, x = bench(batch=1, time=2, d_model=d_model, heads=heads)
    d_k = d_model // heads
    unit = torch.zeros(d_model, dtype=torch.float64)
    unit[::d_k] = math.sqrt(dot)
    x[:] = torch.eye(2, d_model, dtype=torch.float64)
    with torch.no_grad():
        for linear, positions in ((module.W_q, (0, 1)), (module.W_k, (0,))):
            linear.weight.zero_()
            linear.bias.zero_()
            for position in positions:
                linear.weight[:, position] = unit
    return module, x


def test_the_scale_is_that_of_a_head():
    # karpathy/ng-video-lecture#6: d_model 512, h 8; a dot product of 64 against 0.
    module, x = aligned(512, 8, 64.0)
    for name in ("no_scale", "scale_d_model"):
        right = run("right", name, module, x)[1][0, 0, 0]
        assert far(right, torch.tensor([0.99966, 0.00034])) <= 1e-5
    by_d_model = run("wrong", "scale_d_model", module, x)[1][0, 0, 0]
    assert far(by_d_model, torch.tensor([0.9442, 0.0558])) <= 1e-4
    unscaled = run("wrong", "no_scale", module, x)[1][0, 0, 0]
    assert unscaled[1] < 1e-27  # e^-64


@pytest.mark.parametrize(("name", "grows"), [("no_scale", False), ("scale_d_model", True)])
def test_entropy_collapses_without_scale_and_grows_with_too_much(name, grows):
    module, x = bench(batch=2, time=12, d_model=128, heads=4)
    seen = maps_seen(examine(MISTAKES[name], module, x), 0)
    right, wrong = seen.measures()
    assert (wrong.entropy > right.entropy) == grows
    # By hand, from the scores themselves.
    q, k = (x[seen.item] @ w.weight[:32].T + w.bias[:32] for w in (module.W_q, module.W_k))
    factor = 1 / math.sqrt(128) if name == "scale_d_model" else 1.0
    p = (q @ k.T * factor).softmax(-1).detach()
    assert wrong.entropy == pytest.approx(float(-(p * p.log()).sum(-1).mean()), abs=1e-5)


def test_scaled_by_d_model_is_unseen_with_one_head():
    module, x = bench(heads=1)
    assert examine(MISTAKES["scale_d_model"], module, x).betrayed == "no change"


def test_half_precision_refuses_to_be_filled_with_what_it_cannot_hold():
    # NVIDIA/apex#1052: -1e9 and -65505 raise, -65504 and -inf do not.
    module, x = bench()
    with pytest.raises(RuntimeError, match=r"cannot be converted to type .*Half without"):
        run("wrong", "fill_overflow", module, x)
    scores, hidden = torch.zeros(2, 2).half(), torch.eye(2).bool()
    with pytest.raises(RuntimeError, match="without overflow"):
        scores.masked_fill(hidden, -65505.0)
    for fill in (-65504.0, -1e4, -math.inf):
        assert (scores.masked_fill(hidden, fill).softmax(-1).diagonal() == 0).all()
    assert (scores.bfloat16().masked_fill(hidden, -1e9).softmax(-1).diagonal() == 0).all()


def test_what_is_added_becomes_infinite_and_a_row_of_it_nan():
    module, x = bench()
    wrong, right = (run(which, "fill_added", module, x) for which in ("wrong", "right"))
    assert wrong[1].dtype is torch.float16
    assert wrong[1][-1].isnan().all()
    assert wrong[0][-1].isnan().all()
    assert torch.equal(wrong[1][:-1], right[1][:-1])  # all other rows come out right
    assert far(right[1][-1], torch.full((3, 5, 5), 0.2)) <= 1e-3  # an even spread
    # The same line in float32 is that even spread too: nobody noticed.
    assert far((torch.randn(5) - 1e9).softmax(-1), torch.full((5,), 0.2)) <= 1e-6


def test_an_item_without_tokens_is_nan_and_zero_after_the_repair():
    module, x = bench()
    wrong, right = (run(which, "dead_rows", module, x) for which in ("wrong", "right"))
    assert wrong[0][-1].isnan().all()
    assert wrong[0][:-1].isfinite().all()
    assert (right[1][-1] == 0).all()
    assert far(right[0][-1], module.W_o.bias.expand(5, -1).detach()) <= 1e-15


def test_one_dead_row_poisons_the_gradient_of_every_item():
    # pytorch/pytorch#196170: the loss reads item 0 alone, which sees all its keys.
    for which, poisoned in (("wrong", True), ("right", False)):
        module, x = bench()
        output, _ = getattr(MISTAKES["dead_rows"], which)(module, x)
        assert output[0].isfinite().all()
        output[0].sum().backward()
        assert bool(module.W_v.weight.grad.isnan().any()) == poisoned


def test_the_nan_zeroed_afterwards_is_still_in_the_gradient():
    module, x = bench()

    def afterwards(m, x):
        output, weights = MISTAKES["dead_rows"].wrong(m, x)
        return output.nan_to_num(0.0), weights

    assert afterwards(module, x)[0].isfinite().all()
    assert not MISTAKES["dead_rows"].check(afterwards, module, x)
