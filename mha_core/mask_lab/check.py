"""Each library's own attention under the mask in its words, against ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core import masks
from mha_core.attention import attend
from mha_core.mask_lab.lab import Lab
from mha_core.mask_lab.words import BERT, GPT2, MHA, SDPA, Word
from mha_core.proofs import as_multihead_attention

# Largest differences of a weight, which is at most 1; the half types have 8 and 11 bits.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 5e-6,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}


@dataclass(frozen=True)
class Checked:
    """What a library's attention gave.

    Attributes:
        difference: largest, of its weights from ours, over the rows that see a key; None where
            it raised or no row sees any.
        holds: whether that is within the rounding of the dtype.
        blind: what the rows that see no key became: "", "0", "NaN", "even" or "other".
        error: what it raised.
    """

    difference: float | None
    holds: bool
    blind: str = ""
    error: str = ""


def check(lab: Lab, keep: Tensor, word: Word) -> Checked:
    """Runs the library that `word` speaks to, on the lab's own weights and input.

    Args:
        lab: square: as many queries as keys.
        keep: boolean (Tq, Tk) or (batch, 1, Tq, Tk), True = may attend.
    """
    try:
        theirs = library_weights(lab, word)
    except (RuntimeError, ValueError, AssertionError) as error:
        return Checked(None, False, error=str(error))
    return compare(theirs, ours(lab, keep), keep)


def ours(lab: Lab, keep: Tensor) -> Tensor:
    """This package's weights under the mask: (batch, h, Tq, Tk)."""
    q, k, v = lab.qkv
    with torch.no_grad():
        return attend(q, k, v, mask=keep)[1]


def library_weights(lab: Lab, word: Word) -> Tensor:
    """The library's weights: (batch, h, Tq, Tk)."""
    if word.library == SDPA:
        return _sdpa(lab, word.given)
    if word.library == MHA:
        return _multihead(lab, word.given)
    from mha_core.mask_lab import hugging

    family = {BERT: "bert", GPT2: "gpt2"}[word.library]
    mask = word.given["attention_mask"]
    assert isinstance(mask, Tensor)
    return hugging.weights(lab, family, mask)


def _sdpa(lab: Lab, given: dict[str, Any]) -> Tensor:
    """It returns no weights; with the identity as v its output is the weights."""
    q, k, _ = lab.qkv
    identity = torch.eye(k.shape[2], dtype=q.dtype, device=q.device).expand(*k.shape[:3], -1)
    with torch.no_grad():
        return F.scaled_dot_product_attention(q, k, identity, **given)


def _multihead(lab: Lab, given: dict[str, Any]) -> Tensor:
    theirs = as_multihead_attention(lab.module)
    with torch.no_grad():
        found: Tensor = theirs(
            lab.x, lab.x, lab.x, need_weights=True, average_attn_weights=False, **given
        )[1]
    return found


def compare(theirs: Tensor, ours: Tensor, keep: Tensor) -> Checked:
    """Differences where a row sees a key, and what became of the rows that see none."""
    sees = masks.visible(keep).any(-1).broadcast_to(theirs.shape[:-1])
    wide = torch.promote_types(theirs.dtype, torch.float32)
    blind = kind_of_rows(theirs[~sees])
    if not sees.any():
        return Checked(None, True, blind)
    difference = float((theirs[sees].to(wide) - ours[sees].to(wide)).abs().max())
    return Checked(difference, difference <= TOLERANCE[ours.dtype], blind)


def kind_of_rows(rows: Tensor) -> str:
    """What rows of weights (n, Tk) are: "", "0", "NaN", "even" or "other"."""
    if not rows.numel():
        return ""
    if rows.isnan().all():
        return "NaN"
    if (rows == 0).all():
        return "0"
    even = 1.0 / rows.shape[-1]
    if ((rows.float() - even).abs() <= 8 * torch.finfo(rows.dtype).eps * even).all():
        return "even"
    return "other"
