"""Mistakes with the causal mask: added, too late, the wrong way round, or one off."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core.attention import MultiHeadAttention
from mha_core.mistakes.parts import Made, Run, join, past, project, score
from mha_core.mistakes.records import Mistake


def _future_unseen(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
    changed = x.clone()
    changed[:, -1] += 1.0
    before, after = run(m, x)[0], run(m, changed)[0]
    return torch.equal(before[:, :-1], after[:, :-1])


def mask_added() -> Mistake:
    """Silent: ones and zeros added where −∞ was meant."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = past(x).to(x.dtype)  # 1.0 and 0.0
        weights = (score(q, k) + keep).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = past(x)
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="mask_added",
        title="0/1 mask added to the scores",
        why="A floating-point mask is added to the scores. 1 for “keep” and 0 for “hide” make the "
        "kept keys e times as heavy and hide nothing.",
        wrong=wrong,
        right=right,
        check=_future_unseen,
        sign="Change the last token: no output before it may move.",
        fix="scores = scores.masked_fill(~keep, -torch.inf)  # keep: boolean",
        step="mask",
        mask=past,
        seen_in=("pytorch/pytorch#21518", "pytorch/pytorch#92554"),
    )


def mask_after_softmax() -> Mistake:
    """Silent: weights zeroed after they were shared out."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = past(x)
        weights = score(q, k).softmax(-1).masked_fill(~keep, 0.0)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = past(x)
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        total = run(m, x)[1].sum(-1)
        return torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-5)

    return Mistake(
        id="mask_after_softmax",
        title="mask after softmax",
        why="softmax has shared 1 among all keys before the mask takes some away. Rows sum to less "
        "than 1, early positions most, and the future still sets how much.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Every row of weights sums to 1.",
        fix="weights = scores.masked_fill(~keep, -torch.inf).softmax(-1)",
        step="mask",
        mask=past,
        seen_in=("huggingface/pytorch-image-models#2236",),
    )


def polarity() -> Mistake:
    """Silent: True = ignore, given to a function for which True = may attend."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        ignore = ~past(x)  # as nn.MultiheadAttention takes it: True = ignore
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=ignore)
        # Values of one 1 each: the outputs are the weights.
        ones = torch.eye(x.shape[1], dtype=x.dtype).expand(*q.shape[:2], -1, -1)
        weights = F.scaled_dot_product_attention(q, k, ones, attn_mask=ignore)
        return join(m, out), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        ignore = ~past(x)  # as nn.MultiheadAttention takes it: True = ignore
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=~ignore)
        # Values of one 1 each: the outputs are the weights.
        ones = torch.eye(x.shape[1], dtype=x.dtype).expand(*q.shape[:2], -1, -1)
        weights = F.scaled_dot_product_attention(q, k, ones, attn_mask=~ignore)
        return join(m, out), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        weights = run(m, x)[1]
        on_itself = weights.diagonal(dim1=-2, dim2=-1)
        return bool((weights.triu(1) == 0).all() and (on_itself > 0).all())

    return Mistake(
        id="polarity",
        title="inverted mask polarity",
        why="nn.MultiheadAttention reads True as ignore, F.scaled_dot_product_attention as may "
        "attend. A mask carried from one to the other shows the future and hides all else; the "
        "last row sees nothing, and here is all 0.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Nothing above the diagonal, and something on it. Print one mask, once.",
        fix="F.scaled_dot_product_attention(q, k, v, attn_mask=~ignore)",
        step="mask",
        mask=past,
        seen_in=("rasbt/LLMs-from-scratch#1061", "pytorch/pytorch#170415"),
    )


def causal_leak() -> Mistake:
    """Silent: the diagonal one too far, so that each position sees the next."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        time = x.shape[1]
        keep = torch.ones(time, time, dtype=torch.bool).tril(diagonal=1)
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        time = x.shape[1]
        keep = torch.ones(time, time, dtype=torch.bool).tril(diagonal=0)
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="causal_leak",
        title="causal mask off by one: sees the next",
        why="triu(1) is what to hide, tril(0) what to keep; tril(1) keeps one key too many. A "
        "language model then copies the answer, and its loss looks wonderful.",
        wrong=wrong,
        right=right,
        check=_future_unseen,
        sign="Change the last token: no output before it may move.",
        fix="keep = torch.ones(time, time, dtype=torch.bool).tril()",
        step="mask",
        mask=past,
        seen_in=("pbloem/former#10",),
    )


def causal_blind() -> Mistake:
    """Silent: the diagonal hidden too, so that no position sees itself."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        time = x.shape[1]
        ignore = torch.ones(time, time, dtype=torch.bool).triu(diagonal=0)
        weights = score(q, k).masked_fill(ignore, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        time = x.shape[1]
        ignore = torch.ones(time, time, dtype=torch.bool).triu(diagonal=1)
        weights = score(q, k).masked_fill(ignore, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        on_itself = run(m, x)[1].diagonal(dim1=-2, dim2=-1)
        return bool((on_itself > 0).all())

    return Mistake(
        id="causal_blind",
        title="causal mask off by one: blind to itself",
        why="triu(0) hides the diagonal as well. The first position is left without a key and "
        "becomes NaN; the second sees only the first.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Every position keeps some weight on itself, and nothing is NaN.",
        fix="ignore = torch.ones(time, time, dtype=torch.bool).triu(1)",
        step="mask",
        mask=past,
        seen_in=("TransformerLensOrg/TransformerLens#284", "karpathy/nanoGPT#170"),
    )


CAUSAL = (mask_added, mask_after_softmax, polarity, causal_leak, causal_blind)
