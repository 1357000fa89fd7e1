"""Mistakes in use: a module in the wrong mode or order, maps taken for what they are not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core.attention import MultiHeadAttention
from mha_core.mistakes.parts import Made, Run, close, join, project, score, theirs
from mha_core.mistakes.records import Mistake


def dropout_left_on() -> Mistake:
    """Silent: a function that drops weights unless told not to."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        weights = score(q, k).softmax(-1)
        weights = F.dropout(weights, 0.1)  # m.training is False; nobody asked
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        weights = score(q, k).softmax(-1)
        weights = F.dropout(weights, 0.1, training=m.training)
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        once, again = run(m, x), run(m, x)
        total = once[1].sum(-1)
        return torch.equal(once[0], again[0]) and close(total, torch.ones_like(total))

    return Mistake(
        id="dropout_left_on",
        title="dropout left on in evaluation",
        why="F.dropout drops unless told otherwise: training is True by default, whatever mode the "
        "module is in. Some weights are 0, the rest 1/0.9 too large, and every run differs.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Two runs in evaluation agree to the last bit, and rows sum to 1.",
        fix="weights = F.dropout(weights, p, training=self.training)",
        step="dropout",
        seen_in=("pytorch/pytorch#42929", "idiap/fast-transformers#131"),
    )


def averaged() -> Mistake:
    """Silent: torch's default, the mean over heads, read as one head."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        attention = theirs(m, batch_first=True)
        output, weights = attention(x, x, x)
        head_0 = weights[0]  # (time, time)
        return output, head_0

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        attention = theirs(m, batch_first=True)
        output, weights = attention(x, x, x, average_attn_weights=False)
        head_0 = weights[0, 0]  # (time, time)
        return output, head_0

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        q, k, v = (t[0, 0] for t in project(m, x))
        one_head = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return close(run(m, x)[1] @ v, one_head)

    return Mistake(
        id="averaged",
        title="averaged weights taken for a head's",
        why="nn.MultiheadAttention returns the mean over heads, (batch, time, time), unless asked. "
        "weights[0] is then batch item 0, not head 0: a (time, time) map all the same, smoother "
        "than any head.",
        wrong=wrong,
        right=right,
        check=check,
        sign="A head's map times that head's values is that head's output.",
        fix="mha(x, x, x, average_attn_weights=False)  # weights: (batch, h, time, time)",
        step="softmax",
        seen_in=("pytorch/pytorch#34537", "facebookresearch/fairseq#3365"),
    )


def batch_second() -> Mistake:
    """Silent: (batch, time) read as (time, batch)."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        attention = theirs(m, batch_first=False)  # as nn.MultiheadAttention is by default
        output, weights = attention(x, x, x, average_attn_weights=False)
        return output, weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        attention = theirs(m, batch_first=True)
        output, weights = attention(x, x, x, average_attn_weights=False)
        return output, weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        others, later = x.clone(), x.clone()
        others[1:] += 1.0  # other batch items
        later[0, -1] += 1.0  # another position of the same item
        first = run(m, x)[0][0, 0]
        alone = torch.equal(run(m, others)[0][0, 0], first)
        mixes = x.shape[1] == 1 or not torch.equal(run(m, later)[0][0, 0], first)
        return alone and mixes

    return Mistake(
        id="batch_second",
        title="batch_first forgotten",
        why="nn.MultiheadAttention takes (time, batch, d_model) unless batch_first is set. Given "
        "(batch, time, d_model), items of the batch attend to one another. The output's shape is "
        "right; that of the weights is not, unless batch equals time.",
        wrong=wrong,
        right=right,
        check=check,
        sign="Another batch item changes: this one's output stays. Another position changes: it "
        "moves.",
        fix="nn.MultiheadAttention(d_model, h, batch_first=True)",
        step="input",
        seen_in=("pytorch/pytorch#122959", "om-ai-lab/OmDet#19", "kyegomez/movie-gen#8"),
    )


READING = (dropout_left_on, averaged, batch_second)
