"""Mistakes with the layout, against index arithmetic and cases that people reported."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mha_core.mistakes import MISTAKES
from mha_core.mistakes.parts import interleaved
from tests.core.support import softmax
from tests.mistakes.support import bench, far, run, split


def test_view_on_the_transposed_context_raises_and_contiguous_repairs_it():
    # facebookresearch/fairseq#2598: (1, 2, 3, 4) -> transpose(1, 2) -> view(1, 3, 8).
    module, x = bench(batch=1, time=3, d_model=8, heads=2)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        run("wrong", "view_transposed", module, x)
    assert run("right", "view_transposed", module, x)[0].shape == (1, 3, 8)


@pytest.mark.parametrize("size", [{"heads": 1}, {"time": 1}])
def test_with_one_head_or_one_position_the_strides_happen_to_fit(size):
    module, x = bench(**size)
    wrong, right = (run(which, "view_transposed", module, x) for which in ("wrong", "right"))
    assert torch.equal(wrong[0], right[0])


def test_torch_names_a_shape_where_d_model_is_not_divisible():
    # facebookresearch/detr#499: d_model 10, h 3: 10 // 3 = 3, and 1 · 2 · 3 · 3 is not 20.
    module, x = bench(batch=1, time=2, d_model=10, heads=2)
    with pytest.raises(RuntimeError, match=r"'\[1, 2, 3, 3\]' is invalid for input of size 20"):
        run("wrong", "indivisible", module, x)


def test_without_the_transpose_a_head_reads_pieces_of_the_same_positions():
    module, x = bench()
    batch, time, d_model = x.shape
    heads, d_k = module.heads, module.d_k
    flat = [
        (x @ linear.weight.T + linear.bias).detach().numpy().reshape(batch, -1)
        for linear in (module.W_q, module.W_k, module.W_v)
    ]
    out = np.zeros((batch, heads, time, d_k))
    for b in range(batch):
        for h in range(heads):
            # Row t of "head" h is the piece (h · time + t) of all pieces of the item, in order.
            q, k, v = (
                np.stack([f[b, (h * time + t) * d_k : (h * time + t + 1) * d_k]
                          for t in range(time)])
                for f in flat
            )  # fmt: skip
            out[b, h] = softmax(q @ k.T / math.sqrt(d_k)) @ v
    joined = torch.tensor(np.concatenate([out[:, h] for h in range(heads)], axis=-1))
    expected = module.W_o(joined).detach()
    output, _ = run("wrong", "heads_from_time", module, x)
    assert output.shape == (batch, time, d_model)
    assert far(output, expected) <= 1e-12
    assert far(output, run("right", "heads_from_time", module, x)[0]) > 0.1


def test_heads_merged_without_transposing_back():
    # jsbaan/transformer-from-scratch#6: 0..7 in (1, 2, 2, 2) is to be [[0,1,4,5],[2,3,6,7]].
    module, x = bench(batch=1, time=2, d_model=4, heads=2)
    x[:] = torch.tensor([[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]], dtype=torch.float64)
    # Each position sees itself alone: q and k of position t are 40 times unit vector t.
    aim = 40.0 * torch.eye(2, dtype=torch.float64).repeat(1, 2)
    with torch.no_grad():
        for linear in (module.W_q, module.W_k):
            linear.weight.copy_((torch.linalg.pinv(x[0]) @ aim).T)
            linear.bias.zero_()
        for linear in (module.W_v, module.W_o):
            linear.weight.copy_(torch.eye(4))
            linear.bias.zero_()
    v = split(module, x)[2]
    assert v.flatten().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    right, wrong = (run(which, "merge_untransposed", module, x)[0] for which in ("right", "wrong"))
    assert far(right, torch.tensor([[[0.0, 1, 4, 5], [2, 3, 6, 7]]])) <= 1e-9
    assert far(wrong, torch.tensor([[[0.0, 1, 2, 3], [4, 5, 6, 7]]])) <= 1e-9


def test_a_merge_without_transpose_leaves_the_maps_right():
    module, x = bench()
    right, wrong = (run(which, "merge_untransposed", module, x) for which in ("right", "wrong"))
    assert torch.equal(right[1], wrong[1])
    assert far(right[0], wrong[0]) > 0.1


def test_an_interleaved_weight_gives_each_head_its_rows_in_turn():
    module, _ = bench(d_model=8, heads=4)
    with torch.no_grad():
        for start, linear in enumerate((module.W_q, module.W_k, module.W_v)):
            linear.weight[:, 0] = torch.arange(8.0) + 100 * start
            linear.bias.copy_(linear.weight[:, 0])
    weight, bias = interleaved(module)
    first_head = [0, 1, 100, 101, 200, 201]
    assert weight[:6, 0].tolist() == first_head
    assert weight[6:12, 0].tolist() == [2, 3, 102, 103, 202, 203]
    assert bias[:6].tolist() == first_head


def test_read_as_stacked_the_queries_of_head_0_are_still_its_own_and_the_keys_anothers():
    # h 2, d_k 2: rows q0 q0 k0 k0 | v0 v0 q1 q1 | k1 k1 v1 v1 read as Q, K, V in three blocks.
    module, x = bench(d_model=4, heads=2)
    q, k, v = split(module, x)
    scores = q[:, 0] @ v[:, 0].transpose(-2, -1) / math.sqrt(2)
    _, weights = run("wrong", "interleaved", module, x)
    assert far(weights[:, 0], scores.softmax(-1)) <= 1e-12
    scores = k[:, 0] @ q[:, 1].transpose(-2, -1) / math.sqrt(2)
    assert far(weights[:, 1], scores.softmax(-1)) <= 1e-12


def test_a_module_without_bias_has_a_fused_weight_without_bias():
    module, x = bench()
    for linear in (module.W_q, module.W_k, module.W_v, module.W_o):
        linear.bias = None
    assert interleaved(module)[1] is None
    with torch.no_grad():
        assert MISTAKES["interleaved"].check(MISTAKES["interleaved"].right, module, x)
