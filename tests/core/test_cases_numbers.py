"""Mistakes that were made in public code with masks and numbers, each with the right values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mha_core import ConfigError, MHAConfig, attend, maps, masks, trace_forward
from tests.core.support import BATCH, D_MODEL, TIME, close, config, randn, seeded

EVEN_CAUSAL = [[1 / (row + 1)] * (row + 1) + [0.0] * (3 - row) for row in range(4)]


def even_weights(time_q=4, time_k=None, **options):
    """The weights where all scores are zero, so that only the mask shapes them."""
    zeros = torch.zeros(1, 1, time_k or time_q, 2, dtype=torch.float64)
    return attend(zeros[:, :, :1].expand(1, 1, time_q, 2), zeros, zeros, **options)[1][0, 0]


def is_near(weights, expected, tolerance=1e-5):
    return np.allclose(weights.numpy(), expected, rtol=0, atol=tolerance)


def test_true_means_may_attend_and_the_other_polarity_shows_at_once():
    # rasbt/LLMs-from-scratch#1061.
    assert is_near(even_weights(mask=torch.ones(4, 4).tril().bool()), EVEN_CAUSAL)
    wrong = even_weights(mask=torch.ones(4, 4).triu(1).bool())
    assert is_near(wrong[0], [0, 1 / 3, 1 / 3, 1 / 3])
    assert wrong[3].tolist() == [0, 0, 0, 0]  # no NaN
    assert is_near(even_weights(mask=masks.flip(torch.ones(4, 4).triu(1).bool())), EVEN_CAUSAL)


def test_the_diagonal_can_be_attended():
    # karpathy/nanoGPT#170.
    weights = even_weights(causal=True)
    assert is_near(weights, EVEN_CAUSAL)
    assert (weights.diagonal() > 0).all()


def test_a_tril_of_ones_as_numbers_is_added_as_the_numbers_it_holds():
    # pytorch/pytorch#21518: it adds 1 to what it should let through, and hides nothing.
    as_numbers = even_weights(8, mask=torch.ones(8, 8, dtype=torch.float64).tril())
    # Row 0: e / (e + 7) and 1 / (e + 7).
    assert is_near(as_numbers[0], [0.27971] + [0.10290] * 7)
    assert is_near(as_numbers[7], [0.125] * 8)
    right = torch.zeros(8, 8).masked_fill(~masks.causal(8), -math.inf)
    assert close(even_weights(8, mask=right), even_weights(8, causal=True))


def test_a_mask_before_softmax_leaves_rows_that_sum_to_one():
    # huggingface/pytorch-image-models PR#2236: after softmax they sum to .25, .5, .75, 1.
    assert is_near(even_weights(causal=True).sum(-1), [1, 1, 1, 1], 1e-15)


def test_a_masked_row_poisons_no_gradient():
    # pytorch/pytorch PR#196170: all keys of item 0 are padding, the loss reads item 1 alone.
    module, x = seeded(), randn(BATCH, TIME, D_MODEL)
    module(x, mask=masks.padding([0, 3], TIME))[1].sum().backward()
    for parameter in module.parameters():
        assert torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize(
    ("time_q", "time_k", "align", "expected"),
    [
        (2, 5, "upper_left", [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]),
        (2, 5, "lower_right", [[0.25, 0.25, 0.25, 0.25, 0], [0.2] * 5]),
        (5, 2, "lower_right", [[0, 0], [0, 0], [0, 0], [1, 0], [0.5, 0.5]]),
        (5, 2, "upper_left", [[1, 0]] + [[0.5, 0.5]] * 4),
    ],
)
def test_causal_with_other_numbers_of_queries_and_keys(time_q, time_k, align, expected):
    # Dao-AILab/flash-attention#517.
    mask = masks.causal(time_q, time_k, align=align)
    assert is_near(even_weights(time_q, time_k, mask=mask), expected)
    if align == "upper_left":
        assert is_near(even_weights(time_q, time_k, causal=True), expected)


def test_padding_given_as_numbers_is_added_as_booleans_it_hides_and_as_integers_refused():
    # pytorch/pytorch#92554.
    row = [0, 0, 1, 1]
    boosted = even_weights(mask=torch.tensor(row, dtype=torch.float64))
    assert is_near(boosted[0], [0.13447, 0.13447, 0.36553, 0.36553])
    hidden = even_weights(mask=masks.flip(torch.tensor(row).bool()))
    assert is_near(hidden[0], [0.5, 0.5, 0, 0])
    with pytest.raises(ConfigError, match=r"must be boolean .* or floating point"):
        even_weights(mask=torch.tensor(row))


def test_the_lowest_value_added_by_two_masks_puts_no_mass_on_a_hidden_key():
    # lucidrains/nGPT-pytorch#11.
    joined = masks.combine(masks.causal(4), torch.tensor([False, True, True, True]))
    weights = even_weights(mask=joined, fill=torch.finfo(torch.float64).min)
    assert torch.isfinite(weights).all()
    alive = joined.any(-1)
    assert (weights[alive][~joined[alive]] == 0).all()


def test_a_nan_behind_a_mask_is_refused_with_its_place():
    # pytorch/pytorch#101967: 0 times NaN is NaN, so that masking its key does not help.
    x = randn(BATCH, TIME, D_MODEL)
    x[0, 1, 4] = math.nan
    mask = torch.ones(TIME, TIME, dtype=torch.bool)
    mask[:, 1] = False
    assert seeded()(x, mask=mask)[0].isnan().all()
    with pytest.raises(ConfigError, match=r"x=nan: must be finite; .* at \(0, 1, 4\)"):
        trace_forward(config(), x=x, mask=mask)


def test_padding_hides_keys_and_leaves_the_rows_of_padded_queries():
    # pytorch/pytorch#41508.
    trace = trace_forward(config(batch=2, time=4), mask=masks.padding([4, 2], 4))
    assert (trace.weights[1, :, :, 2:] == 0).all()
    assert close(trace.weights.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))


def test_float16_scores_overflow_where_bfloat16_and_float32_do_not():
    # prescient-design/e3tools PR#3: 64 * 300 * 300 = 5.76 million, and float16 ends at 65504.
    seen = {}

    def observe(step, tensor):
        seen[step] = tensor
        return tensor

    for dtype in (torch.float32, torch.bfloat16):
        q = torch.full((1, 1, 2, 64), 300.0, dtype=dtype)
        _, weights = attend(q, q, q, observe=observe)
        assert seen["scores"].float()[0, 0, 0, 0] == pytest.approx(5.76e6, rel=0.004)
        assert weights.tolist() == [[[[0.5, 0.5]] * 2]]
    attend(q.half(), q.half(), q.half(), observe=observe)
    assert seen["scores"].isinf().all()  # as torch has it: the trace hides nothing


def test_softmax_is_over_the_keys():
    # PetrochukM/PyTorch-NLP#2: over the queries the rows sum to .25, .5833, 1.0833, 2.0833.
    weights = trace_forward(config(causal=True)).weights
    assert close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    assert not close(weights.sum(-2), torch.ones(2, 3, 5, dtype=torch.float64), 0.1)


def test_softmax_runs_once_and_the_mask_survives_it():
    # zyy-2001/DisKT#6: a second softmax makes [1, 0, 0, 0] [.4754, .1749, .1749, .1749].
    assert even_weights(causal=True)[0].tolist() == [1, 0, 0, 0]
    operators = [
        operator.name
        for step in trace_forward(config(causal=True)).steps
        for operator in step.operators
    ]
    assert operators.count("aten._softmax") == 1


def test_the_scale_is_one_over_the_root_of_d_k_and_of_nothing_else():
    # karpathy/ng-video-lecture PR#6: d_model gives .0442 and h gives .3536 instead of .125.
    trace = trace_forward(MHAConfig(d_model=512, heads=8))
    assert close(trace.tensor("scale"), trace.tensor("scores") * 0.125, 1e-6)
    q, k = torch.full((1, 1, 1, 64), 1.0), torch.stack([torch.ones(64), torch.zeros(64)])
    _, weights = attend(q, k[None, None], k[None, None])
    assert is_near(weights[0, 0, 0], [0.99966, 0.00034])


def test_dropout_breaks_the_sum_of_a_row_and_the_weights_shown_are_before_it():
    # pytorch/pytorch#42929.
    made = MHAConfig(batch=50, time=1, d_model=2, heads=1, dropout=0.2)
    trace = trace_forward(made)
    assert set(trace.tensor("dropout").flatten().tolist()) == {0.0, 1.25}
    assert (trace.weights == 1).all()


@pytest.mark.parametrize(
    ("dtype", "error"), [("float32", 2e-7), ("float16", 1e-3), ("bfloat16", 8e-3)]
)
def test_low_precision_maps_that_need_gradients_become_plain_numbers(dtype, error):
    # pytorch/pytorch#110285: numpy has no bfloat16, and takes no tensor that requires a gradient.
    trace = trace_forward(MHAConfig(dtype=dtype, time=13))
    pooled = maps.pool(maps.head_maps(trace), 13).values
    assert pooled.dtype == np.float32
    assert np.abs(pooled.astype(float).sum(-1) - 1).max() < error


def test_the_fill_fits_the_dtype_or_is_refused():
    # NVIDIA/apex#1052.
    for dtype, fill in (("float16", -1e9), ("float16", -65505.0), ("bfloat16", -3.4028235e38)):
        with pytest.raises(ConfigError, match=f"does not fit {dtype}"):
            MHAConfig(dtype=dtype, fill=fill)
    for dtype, fill in (("float16", -65504.0), ("float16", -1e4), ("bfloat16", -1e9)):
        trace = trace_forward(MHAConfig(dtype=dtype, fill=fill, causal=True))
        assert (trace.weights.triu(1) == 0).all()
