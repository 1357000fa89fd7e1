"""Mistakes with the layout: where a number lies, and whose it is."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from mha_core.attention import MultiHeadAttention
from mha_core.mistakes.parts import Made, Run, close, interleaved, join, project, score
from mha_core.mistakes.records import Mistake

_REORDER = (
    "Without a mask, attention does not know the order of positions: reversed inputs must give "
    "the same outputs, reversed. Where heads have mixed with time they do not."
)


def _keeps_order(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
    forwards, _ = run(m, x)
    backwards, _ = run(m, x.flip(1))
    return close(backwards.flip(1), forwards)


def view_transposed() -> Mistake:
    """Loud: `view` cannot describe what a transpose has left."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        weights = score(q, k).softmax(-1)
        out = (weights @ v).transpose(1, 2)  # (batch, time, h, d_k), by strides alone
        out = out.view(x.shape)
        return m.W_o(out), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        weights = score(q, k).softmax(-1)
        out = (weights @ v).transpose(1, 2)  # (batch, time, h, d_k), by strides alone
        out = out.contiguous().view(x.shape)
        return m.W_o(out), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        return run(m, x)[0].shape == x.shape

    return Mistake(
        id="view_transposed",
        title="view on a transposed tensor",
        why="After transpose(1, 2) the heads of one position do not lie side by side in memory. "
        "view moves no byte, and no strides describe (batch, time, d_model) over that order.",
        wrong=wrong,
        right=right,
        check=check,
        sign="It runs. torch names sizes and strides at once; with one head or one position the "
        "strides happen to fit, and the error waits for the first larger input.",
        fix="out = out.contiguous().view(batch, time, d_model)  # or out.reshape(...)",
        step="merge",
        seen_in=(
            "facebookresearch/fairseq#2598",
            "pytorch/TensorRT#3823",
            "NVIDIA/Megatron-LM#251",
        ),
    )


def indivisible() -> Mistake:
    """Loud: d_model that h does not divide."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        batch, time, d_model = x.shape
        h = next(n for n in range(m.heads + 1, d_model + 2) if d_model % n)
        d_k = d_model // h  # rounded down: h * d_k is less than d_model
        q = m.W_q(x).view(batch, time, h, d_k).transpose(1, 2)
        k = m.W_k(x).view(batch, time, h, d_k).transpose(1, 2)
        v = m.W_v(x).view(batch, time, h, d_k).transpose(1, 2)
        weights = score(q, k).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        batch, time, d_model = x.shape
        h = next(n for n in range(m.heads, d_model + 1) if d_model % n == 0)
        d_k = d_model // h
        q = m.W_q(x).view(batch, time, h, d_k).transpose(1, 2)
        k = m.W_k(x).view(batch, time, h, d_k).transpose(1, 2)
        v = m.W_v(x).view(batch, time, h, d_k).transpose(1, 2)
        weights = score(q, k).softmax(-1)
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        return run(m, x)[0].shape == x.shape

    return Mistake(
        id="indivisible",
        title="d_model not divisible by h",
        why="d_model // h rounds down. h heads of that width are fewer columns than the "
        "projection made, and torch's message is about sizes: it names neither d_model nor h.",
        wrong=wrong,
        right=right,
        check=check,
        sign="It runs. Ask before any tensor is made, where the message can name both numbers.",
        fix='if d_model % h: raise ValueError(f"h={h} does not divide d_model={d_model}")',
        step="split_q",
        seen_in=("pytorch/pytorch#28719", "facebookresearch/detr#499", "open-mmlab/mmaction2#1271"),
    )


def heads_from_time() -> Mistake:
    """Silent: the split without the transpose, so that heads mix with time."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        batch, time, _ = x.shape
        q = m.W_q(x).view(batch, m.heads, time, m.d_k)
        k = m.W_k(x).view(batch, m.heads, time, m.d_k)
        v = m.W_v(x).view(batch, m.heads, time, m.d_k)
        weights = score(q, k).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        batch, time, _ = x.shape
        q = m.W_q(x).view(batch, time, m.heads, m.d_k).transpose(1, 2)
        k = m.W_k(x).view(batch, time, m.heads, m.d_k).transpose(1, 2)
        v = m.W_v(x).view(batch, time, m.heads, m.d_k).transpose(1, 2)
        weights = score(q, k).softmax(-1)
        return join(m, weights @ v), weights

    return Mistake(
        id="heads_from_time",
        title="view(batch, h, time, d_k) without transpose",
        why="view only renames the order in memory, in which a position's h pieces follow one "
        "another. Named (h, time), the first rows of “head 0” are all pieces of position 0: heads "
        "attend among pieces of the same few positions.",
        wrong=wrong,
        right=right,
        check=_keeps_order,
        sign=_REORDER,
        fix="q = q.view(batch, time, h, d_k).transpose(1, 2)",
        step="transpose_q",
        seen_in=("arogozhnikov/einops#384",),
    )


def merge_untransposed() -> Mistake:
    """Silent: heads merged without transposing back."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        weights = score(q, k).softmax(-1)
        out = (weights @ v).reshape(x.shape)
        return m.W_o(out), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        q, k, v = project(m, x)
        weights = score(q, k).softmax(-1)
        out = (weights @ v).transpose(1, 2).reshape(x.shape)
        return m.W_o(out), weights

    return Mistake(
        id="merge_untransposed",
        title="heads merged without transposing back",
        why="reshape reads (batch, h, time, d_k) in its own order: a row of the result holds "
        "consecutive positions of one head, not all heads of one position. The maps stay right; "
        "the output is scrambled, and models have been trained that way.",
        wrong=wrong,
        right=right,
        check=_keeps_order,
        sign=_REORDER,
        fix="out = out.transpose(1, 2).reshape(batch, time, d_model)",
        step="transpose_back",
        seen_in=("jsbaan/transformer-from-scratch#6", "meta-pytorch/opacus#825"),
    )


def interleaved_rows() -> Mistake:
    """Silent: rows of a fused weight in another order than they are read in."""

    def wrong(m: MultiHeadAttention, x: Tensor) -> Made:
        qkv = F.linear(x, *interleaved(m))  # (batch, time, 3 * d_model)
        parts = qkv.unflatten(-1, (3, m.heads, m.d_k)).unbind(-3)
        q, k, v = (part.transpose(1, 2) for part in parts)  # (batch, h, time, d_k)
        weights = score(q, k).softmax(-1)
        return join(m, weights @ v), weights

    def right(m: MultiHeadAttention, x: Tensor) -> Made:
        qkv = F.linear(x, *interleaved(m))  # (batch, time, 3 * d_model)
        parts = qkv.unflatten(-1, (m.heads, 3, m.d_k)).unbind(-2)
        q, k, v = (part.transpose(1, 2) for part in parts)  # (batch, h, time, d_k)
        weights = score(q, k).softmax(-1)
        return join(m, weights @ v), weights

    def check(run: Run, m: MultiHeadAttention, x: Tensor) -> bool:
        q, k, v = project(m, x)
        model_itself = join(m, F.scaled_dot_product_attention(q, k, v))
        return close(run(m, x)[0], model_itself)

    return Mistake(
        id="interleaved",
        title="interleaved QKV read as stacked",
        why="A fused weight holds 3·d_model rows. Some files stack all of Q, then K, then V; "
        "others give each head its q, k and v rows in turn. Read the wrong way, a head's queries "
        "are made of another's keys and values.",
        wrong=wrong,
        right=right,
        check=check,
        sign="One forward beside the model that the file came from. Nothing else tells: both "
        "readings have the same shapes and healthy numbers.",
        fix="q, k, v = qkv.unflatten(-1, (h, 3, d_k)).unbind(-2)  # not (3, h, d_k), unbind(-3)",
        step="project_q",
        seen_in=("vllm-project/vllm#53114", "casper-hansen/AutoAWQ#54"),
    )


LAYOUT = (view_transposed, indivisible, heads_from_time, merge_untransposed, interleaved_rows)
