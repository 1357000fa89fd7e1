"""Mistakes with numbers: scale, softmax, fill, and what half precision makes of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention
from mha_core.mistakes.parts import Made, Run, emptied, join, past, project, score
from mha_core.mistakes.records import Mistake

_SCALE = (
    "Read the factor back: the logarithms of a row of weights are the scaled scores, up to a "
    "constant, so that their spread over that of Q Kᵀ is the factor."
)


def _rows_sum_to_one(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
    total = run(m, x)[1].sum(-1)
    return torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-5)


def _scale_is_right(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
    q, k, _ = project(m, x)
    scores, logs = q @ k.transpose(-2, -1), run(m, x)[1].log()
    spread = (scores - scores.mean(-1, keepdim=True)).norm()
    left = (logs - logs.mean(-1, keepdim=True)).norm()
    expected = spread / math.sqrt(m.d_k)
    return math.isclose(left, expected, rel_tol=0.01, abs_tol=1e-6)


def _all_finite(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
    return bool(run(m, x)[0].isfinite().all())


def softmax_axis() -> Mistake:
    """Silent: shares over the queries instead of the keys."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).masked_fill(~past(x), -torch.inf)
        weights = scores.softmax(-2)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).masked_fill(~past(x), -torch.inf)
        weights = scores.softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="softmax_axis",
        title="softmax over the wrong axis",
        why="The last two axes are equally long, so that no shape objects. Over the queries each "
        "key shares out 1, and a query's row sums to anything; with a causal mask every position "
        "learns of later ones through its own weights.",
        wrong=wrong,
        right=right,
        check=_rows_sum_to_one,
        sign="Every row of weights sums to 1; columns need not.",
        fix="weights = scores.softmax(-1)  # over the keys",
        step="softmax",
        mask=past,
        seen_in=("PetrochukM/PyTorch-NLP#2", "nerminnuraydogan/vision-transformer#1"),
    )


def softmax_twice() -> Mistake:
    """Silent: a second softmax, which undoes mask and contrast."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).masked_fill(~past(x), -torch.inf)
        weights = scores.softmax(-1)
        weights = weights.softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).masked_fill(~past(x), -torch.inf)
        weights = scores.softmax(-1)
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        weights = run(m, x)[1]
        return bool((weights[..., ~past(x)] == 0).all())

    return Mistake(
        id="softmax_twice",
        title="softmax twice",
        why="Often one in the layer and one around it. Shares lie between 0 and 1, so that the "
        "second softmax makes them nearly even, and a masked key, at 0, gets e⁰ like any other. "
        "Rows still sum to 1.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Masked keys have weight 0 exactly, and some weight is far from 1 / time.",
        fix="weights = scores.softmax(-1)  # once",
        step="softmax",
        mask=past,
        seen_in=("zyy-2001/DisKT#6",),
    )


def no_scale() -> Mistake:
    """Silent: Q Kᵀ as it is, so that entropy collapses as d_k grows."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = q @ k.transpose(-2, -1)
        weights = scores.softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(m.d_k)
        weights = scores.softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="no_scale",
        title="no 1/√d_k",
        why="A sum of d_k products spreads as √d_k. Unscaled, softmax nears one-hot: entropy "
        "collapses, and with it the gradient. At small d_k it is hard to see.",
        wrong=wrong,
        right=right,
        check=_scale_is_right,
        sign=_SCALE,
        fix="scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)",
        step="scale",
        seen_in=("karpathy/ng-video-lecture#6", "Graylab/DL4Proteins-notebooks#12"),
    )


def scale_d_model() -> Mistake:
    """Silent: the width of the model where the width of a head belongs."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(m.d_model)
        weights = scores.softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(m.d_k)
        weights = scores.softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="scale_d_model",
        title="scaled by √d_model",
        why="The sum has d_k terms, one head's, not d_model. The scores come out √h times too "
        "small, and softmax stays nearly even: heads look alike, and it still trains, only worse.",
        wrong=wrong,
        right=right,
        check=_scale_is_right,
        sign=_SCALE,
        fix="scores = q @ k.transpose(-2, -1) / math.sqrt(d_model // h)",
        step="scale",
        seen_in=("karpathy/ng-video-lecture#6", "omihub777/ViT-CIFAR#11"),
    )


def fill_overflow() -> Mistake:
    """Loud: a fill that half precision cannot hold."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).half()
        weights = scores.masked_fill(~past(x), -1e9).softmax(-1)
        return join(m, weights.to(v.dtype) @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).half()
        weights = scores.masked_fill(~past(x), -torch.inf).softmax(-1)
        return join(m, weights.to(v.dtype) @ v), weights

    return Mistake(
        id="fill_overflow",
        title="−1e9 filled in half precision",
        why="float16 ends at ±65,504, and masked_fill refuses what does not fit. bfloat16 takes "
        "−1e9, so that the same line runs on one machine and not on another.",
        wrong=wrong,
        right=right,
        check=_all_finite,
        sign="It runs, and every output is finite. Every floating type has −∞.",
        fix="scores = scores.masked_fill(~keep, -torch.inf)",
        step="mask",
        mask=past,
        seen_in=("NVIDIA/apex#1052", "facebookresearch/fairseq#3575", "huggingface/lerobot#710"),
    )


def fill_added() -> Mistake:
    """Silent: −1e9 added, which in half precision is −∞."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).half()
        ignore = (~emptied(x)).half()  # 1.0 for padding; the last item is all padding
        weights = (scores + ignore * -1e9).softmax(-1)
        return join(m, weights.to(v.dtype) @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        scores = score(q, k).half()
        keep = emptied(x)  # the last item is all padding
        weights = scores.masked_fill(~keep, torch.finfo(scores.dtype).min).softmax(-1)
        return join(m, weights.to(v.dtype) @ v), weights

    return Mistake(
        id="fill_added",
        title="−1e9 added in half precision",
        why="Arithmetic does not refuse: −1e9 in float16 is −∞. Most rows come out right. A row "
        "without any key to see is −∞ throughout, softmax divides 0 by 0, and NaN spreads; in "
        "float32 the same line gave an even spread.",
        wrong=wrong,
        right=right,
        check=_all_finite,
        sign="Every output is finite, with a batch item that is all padding.",
        fix="scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)",
        step="mask",
        seen_in=("NVIDIA/apex#1105", "ahrefs/ocannl#548", "lucidrains/nGPT-pytorch#11"),
    )


def dead_rows() -> Mistake:
    """Silent: a query with no key to see."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = emptied(x)  # (batch, 1, 1, time): the last item is all padding
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = emptied(x)  # (batch, 1, 1, time): the last item is all padding
        dead = ~keep.any(-1, keepdim=True)
        weights = score(q, k).masked_fill(~keep & ~dead, -torch.inf).softmax(-1)
        weights = weights * ~dead
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            output = run(m, x)[0]
            (gradient,) = torch.autograd.grad(output.sum(), x)
        return bool(output.isfinite().all() and gradient.isfinite().all())

    return Mistake(
        id="dead_rows",
        title="rows that are fully masked",
        why="softmax of a row of −∞ is 0/0. The NaN is not kept to its item: the gradient of W_v "
        "sums over all of them, and 0 · NaN is NaN, so that one empty item ruins the step. "
        "Zeroing the NaN in the output leaves it in the gradient.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Output and gradient are finite, with a batch item that is all padding.",
        fix="weights = scores.masked_fill(~keep & ~dead, -inf).softmax(-1) * ~dead",
        step="mask",
        mask=emptied,
        seen_in=("pytorch/pytorch#41508", "pytorch/pytorch#196170"),
    )


NUMBERS = (
    softmax_axis, softmax_twice, no_scale, scale_d_model, fill_overflow, fill_added, dead_rows,
)  # fmt: skip
