"""Mistakes with masks, with the numbers of the cases that people reported."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from mha_core.mistakes import MISTAKES
from tests.mistakes.support import bench, even, far, run

EVEN_CAUSAL = torch.tensor(
    [[1, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0.25] * 4]
)


def weights_of(which, name, **sizes):
    """(time, time) of the first head, where all scores are zero."""
    return run(which, name, *even(**sizes))[1][0, 0]


@pytest.mark.parametrize(
    "name", ["mask_added", "mask_after_softmax", "polarity", "causal_leak", "causal_blind"]
)
def test_the_right_causal_weights_are_even_over_the_past(name):
    assert far(weights_of("right", name), EVEN_CAUSAL) <= 1e-7


def test_ones_and_zeros_that_are_added_hide_nothing():
    # pytorch/pytorch#21518: e / (e + 7) = 0.27971 and 1 / (e + 7) = 0.10290.
    weights = weights_of("wrong", "mask_added", time=8)
    assert far(weights[0], torch.tensor([0.27971] + [0.10290] * 7)) <= 1e-5
    assert far(weights[7], torch.full((8,), 0.125)) <= 1e-12


def test_a_mask_after_softmax_leaves_rows_short():
    # huggingface/pytorch-image-models#2236.
    sums = weights_of("wrong", "mask_after_softmax").sum(-1)
    assert far(sums, torch.tensor([0.25, 0.5, 0.75, 1.0])) <= 1e-12


def test_the_other_polarity_shows_the_future_alone():
    # rasbt/LLMs-from-scratch#1061.
    weights = weights_of("wrong", "polarity")
    assert far(weights[0], torch.tensor([0, 1 / 3, 1 / 3, 1 / 3])) <= 1e-7
    assert weights[3].tolist() == [0, 0, 0, 0]  # and no NaN


def test_one_too_far_sees_the_next_and_one_short_is_blind():
    # karpathy/nanoGPT#170, pbloem/former#10.
    leaks = weights_of("wrong", "causal_leak")
    assert far(leaks[0], torch.tensor([0.5, 0.5, 0, 0])) <= 1e-12
    blind = weights_of("wrong", "causal_blind")
    assert blind[0].isnan().all()
    assert blind[1].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("name", ["causal_leak", "mask_added"])
def test_a_leak_is_the_change_of_earlier_outputs(name):
    module, x = bench()
    later = x.clone()
    later[:, -1] += 1.0
    for which, leaks in (("wrong", True), ("right", False)):
        before, after = (run(which, name, module, at)[0][:, :-1] for at in (x, later))
        assert (far(before, after) > 1e-3) == leaks


def test_a_padding_mask_needs_its_axes_and_torch_says_which_sizes_meet():
    module, x = bench()
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match .* b \(5\)"):
        run("wrong", "mask_shape", module, x)


def test_where_batch_equals_time_the_wrong_keys_are_hidden_without_a_word():
    module, x = bench(batch=4, time=4)
    _, weights = run("wrong", "mask_shape", module, x)
    # Row 3 of the mask, the padded item's, hides keys of query 3 of every item.
    hidden = weights == 0
    assert hidden[:, :, 3, 2:].all()
    assert not hidden[:, :, :3].any()
    assert not MISTAKES["mask_shape"].check(MISTAKES["mask_shape"].wrong, module, x)


def test_integers_are_no_mask_to_any_function_of_torch():
    # pytorch/pytorch#92554.
    module, x = bench()
    with pytest.raises(RuntimeError, match=r"only supports boolean masks.*long"):
        run("wrong", "mask_dtype", module, x)
    with pytest.raises(RuntimeError, match=r"attn_mask dtype to be bool or float"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(5, 5, dtype=torch.long))


def test_repeat_gives_the_heads_of_one_item_the_mask_of_another():
    # line/lighthouse#77: batch 2, h 2, only item 1 is padded; at time 3 that is key 2.
    module, x = bench(batch=2, time=3, d_model=8, heads=2)
    _, right = run("right", "mask_repeated", module, x)
    _, wrong = run("wrong", "mask_repeated", module, x)
    padding = 2
    assert (right[1, :, :, padding] == 0).all()
    assert (right[0, :, :, padding] > 0).all()
    assert (wrong[:, 1, :, padding] == 0).all()  # head 1 of both items
    assert (wrong[:, 0, :, padding] > 0).all()
    one, x = bench(batch=1, time=3, d_model=8, heads=2)
    assert torch.equal(*(run(which, "mask_repeated", one, x)[0] for which in ("wrong", "right")))
