"""Mistakes with padding: which keys are hidden, from whom, and in which form it is said."""

from __future__ import annotations

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention
from mha_core.mistakes.parts import Made, Run, join, project, score, theirs, tokens
from mha_core.mistakes.records import Mistake


def _padding(x: Tensor) -> Tensor:
    return tokens(x)[:, None, None, :]


def _padding_unseen(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
    output, weights = run(m, x)
    padding = ~tokens(x)[:, None, None, :]
    hidden = weights.masked_select(padding)
    return output.shape == x.shape and bool((hidden == 0).all())


def mask_shape() -> Mistake:
    """Loud: a mask over keys with its axes in the wrong place."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = tokens(x)  # (batch, time)
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        keep = tokens(x)[:, None, None, :]  # (batch, 1, 1, time)
        weights = score(q, k).masked_fill(~keep, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="mask_shape",
        title="mask shape that does not broadcast",
        why="Shapes are matched from the right: the (batch, time) of a padding mask meets (query, "
        "key) of the scores, not batch and key. Where batch equals time it even fits, and hides "
        "the wrong keys without a word.",
        wrong=wrong,
        right=right,
        check=_padding_unseen,
        sign="Padding has weight 0 in every row. Try it with batch = time: torch is silent there.",
        fix="keep = keep[:, None, None, :]  # (batch, time) -> (batch, 1, 1, time)",
        step="mask",
        mask=_padding,
        seen_in=("line/lighthouse#77", "ArrowLuo/CLIP4Clip#22", "pytorch/pytorch#64706"),
    )


def mask_dtype() -> Mistake:
    """Loud: a tokenizer's 1 and 0 where torch wants booleans."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        mask = tokens(x).long()[:, None, None, :]  # 1 and 0, as a tokenizer gives it
        weights = score(q, k).masked_fill(1 - mask, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        mask = tokens(x).long()[:, None, None, :]  # 1 and 0, as a tokenizer gives it
        weights = score(q, k).masked_fill(mask == 0, -torch.inf).softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="mask_dtype",
        title="mask of the wrong dtype",
        why="A tokenizer's attention_mask holds the integers 1 and 0. torch refuses integers as a "
        "mask. Floats it would take, and add: see “0/1 mask added to the scores”.",
        wrong=wrong,
        right=right,
        check=_padding_unseen,
        sign="It runs, and padding has weight 0 in every row.",
        fix="ignore = mask == 0  # boolean, whatever dtype the tokenizer chose",
        step="mask",
        mask=_padding,
        seen_in=("pytorch/pytorch#92554", "mlverse/torch#1205"),
    )


def mask_repeated() -> Mistake:
    """Silent: a mask repeated head by head for a tensor that lies item by item."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        batch, time, _ = x.shape
        ignore = ~tokens(x)[:, None, :].expand(batch, time, time)
        ignore = ignore.repeat(m.heads, 1, 1)  # (batch * h, time, time)
        attention = theirs(m, batch_first=True)
        output, weights = attention(x, x, x, attn_mask=ignore, average_attn_weights=False)
        return output, weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        batch, time, _ = x.shape
        ignore = ~tokens(x)[:, None, :].expand(batch, time, time)
        ignore = ignore.repeat_interleave(m.heads, dim=0)  # (batch * h, time, time)
        attention = theirs(m, batch_first=True)
        output, weights = attention(x, x, x, attn_mask=ignore, average_attn_weights=False)
        return output, weights

    return Mistake(
        id="mask_repeated",
        title="mask repeated in the wrong order",
        why="The (batch · h, time, time) mask of nn.MultiheadAttention lies item by item: all "
        "heads of item 0, then of item 1. repeat lays it out the other way round, so that heads "
        "of one item get the mask of another.",
        wrong=wrong,
        right=right,
        check=_padding_unseen,
        sign="Padding has weight 0 in every head of its item. With batch 1 both orders agree.",
        fix="ignore = ignore.repeat_interleave(h, dim=0)",
        step="mask",
        mask=_padding,
        seen_in=("lsdefine/attention-is-all-you-need-keras#36", "line/lighthouse#77"),
    )


PADDING = (mask_shape, mask_dtype, mask_repeated)
