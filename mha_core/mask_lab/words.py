"""One mask in each library's words: the arguments, the code, and whether the words suffice.

In the code lines `pattern` is (Tq, Tk), `padding` (batch, 1, 1, Tk) and `keep` their AND, all
boolean, True = may attend.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core import masks
from mha_core.mask_lab.forms import convert

SDPA, MHA, BERT, GPT2 = (
    "F.scaled_dot_product_attention", "nn.MultiheadAttention", "Hugging Face BERT",
    "Hugging Face GPT-2",
)  # fmt: skip


@dataclass(frozen=True)
class Word:
    """How one library is told of the mask.

    Attributes:
        id: key among the words.
        library: of SDPA, MHA, BERT and GPT2.
        argument: what it is called there.
        code: the call, in one line.
        given: argument name -> value; empty where the words do not suffice.
        unfit: why this argument cannot say this mask; "" where it can.
        note: what there is to know about it.
    """

    id: str
    library: str
    argument: str
    code: str
    given: dict[str, Tensor | bool]
    unfit: str = ""
    note: str = ""


def words(
    pattern: Tensor, padding: Tensor | None, *, batch: int, heads: int, dtype: torch.dtype
) -> list[Word]:
    """Every way in which the libraries take this mask, with the values they are given.

    Args:
        pattern: boolean (Tq, Tk), True = may attend.
        padding: boolean (batch, 1, 1, Tk), True where a key is no padding; None for none.
        batch, heads: of the scores.
        dtype: of the scores, and so of additive masks.
    """
    keep = masks.combine(pattern, padding)
    assert keep is not None
    whole = keep.broadcast_to(batch, 1, *pattern.shape)
    tokens = torch.ones(batch, pattern.shape[1], dtype=torch.bool, device=pattern.device)
    if padding is not None:
        tokens = padding[:, 0, 0]
    causal = torch.equal(pattern, masks.causal(*pattern.shape, device=pattern.device))
    return [
        *_sdpa(keep, padding, causal, dtype),
        *_mha(pattern, padding, whole, tokens, causal, heads),
        *_hugging_face(pattern, whole, tokens, causal, dtype),
    ]


def _sdpa(keep: Tensor, padding: Tensor | None, causal: bool, dtype: torch.dtype) -> list[Word]:
    call = "F.scaled_dot_product_attention(q, k, v, {})"
    unfit = ""
    if padding is not None:
        unfit = "is_causal knows no padding, and beside attn_mask torch's math kernel refuses it"
    elif not causal:
        unfit = "the pattern is not plain causal"
    return [
        Word(
            "sdpa_keep", SDPA, "attn_mask, boolean", call.format("attn_mask=keep"),
            {"attn_mask": keep}, note="True = may attend: the opposite of nn.MultiheadAttention",
        ),
        Word(
            "sdpa_additive", SDPA, "attn_mask, float",
            "additive = torch.zeros(keep.shape, dtype=q.dtype).masked_fill(~keep, -torch.inf)\n"
            + call.format("attn_mask=additive"),
            {"attn_mask": convert(keep, "keep", "additive", dtype=dtype)},
            note="added to the scaled scores",
        ),
        Word(
            "sdpa_causal", SDPA, "is_causal", call.format("is_causal=True"),
            {} if unfit else {"is_causal": True}, unfit,
            "no mask is stored; upper-left where Tq differs from Tk",
        ),
    ]  # fmt: skip


def _mha(
    pattern: Tensor, padding: Tensor | None, whole: Tensor, tokens: Tensor, causal: bool, heads: int
) -> list[Word]:
    call = "mha(x, x, x, {}, average_attn_weights=False)"
    two = {"attn_mask": masks.flip(pattern), "key_padding_mask": masks.flip(tokens)}
    unfit = "" if causal and padding is None else "the mask is not plain causal"
    return [
        Word(
            "mha_two", MHA, "attn_mask and key_padding_mask",
            call.format("attn_mask=~pattern, key_padding_mask=~padding[:, 0, 0]"), {**two},
            note="True = ignore in both; (Tq, Tk) and (batch, Tk)",
        ),
        Word(
            "mha_heads", MHA, "attn_mask, 3-D",
            "per_head = keep.expand(batch, 1, Tq, Tk)[:, 0].repeat_interleave(h, dim=0)\n"
            + call.format("attn_mask=~per_head"),
            {"attn_mask": masks.flip(whole[:, 0].repeat_interleave(heads, dim=0))},
            note="(batch·h, Tq, Tk), batch first: .repeat(h, 1, 1) would give the mask of one "
            "item to another",
        ),
        Word(
            "mha_causal", MHA, "is_causal",
            call.format("attn_mask=~pattern, is_causal=True"),
            {} if unfit else {"attn_mask": two["attn_mask"], "is_causal": True}, unfit,
            "only a hint: torch refuses it without attn_mask",
        ),
    ]  # fmt: skip


def _hugging_face(
    pattern: Tensor, whole: Tensor, tokens: Tensor, causal: bool, dtype: torch.dtype
) -> list[Word]:
    ones = convert(tokens, "keep", "attention_mask")
    extended = convert(whole, "keep", "extended", dtype=dtype)
    every = bool(pattern.all())
    long = "attention_mask = padding[:, 0, 0].long()"
    build = (
        "extended = torch.zeros(batch, 1, Tq, Tk, dtype=dtype)"
        ".masked_fill(~keep, torch.finfo(dtype).min)"
    )
    return [
        Word(
            "bert_ones", BERT, "attention_mask, 1 / 0",
            f"{long}\nbert(input_ids, attention_mask=attention_mask)",
            {"attention_mask": ones} if every else {},
            "" if every else "1 / 0 says which keys are padding; BERT adds no pattern to it",
            "(batch, Tk) integers; the model makes the extended mask of it",
        ),
        Word(
            "bert_extended", BERT, "attention_mask, extended additive",
            f"{build}\nbert(input_ids, attention_mask=extended)", {"attention_mask": extended},
            note="(batch, 1, Tq, Tk) passes as it is; a boolean one would be added as 0 and 1",
        ),
        Word(
            "gpt2_ones", GPT2, "attention_mask, 1 / 0",
            f"{long}\ngpt2(input_ids, attention_mask=attention_mask)",
            {"attention_mask": ones} if causal else {},
            "" if causal else "GPT-2 adds causal itself, and this pattern is not causal",
            "padding alone: the model is causal by itself",
        ),
        Word(
            "gpt2_extended", GPT2, "attention_mask, extended additive",
            f"{build}\ngpt2(input_ids, attention_mask=extended)", {"attention_mask": extended},
            note="a 4-D mask replaces the model's own causal one",
        ),
    ]  # fmt: skip
