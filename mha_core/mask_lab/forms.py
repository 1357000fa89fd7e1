"""The forms a mask comes in, and the line of code from each to each.

Forms differ in polarity and in kind, not in shape. `convert` is what the code lines do; the tests
run every line and compare.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.errors import ConfigError


@dataclass(frozen=True)
class Form:
    """One way to write down which keys may be attended.

    Attributes:
        id: also the name of the variable in the code lines.
        title: for people.
        meaning: of its values.
        used: who takes it.
        hidden, visible: expressions that are True where a key is hidden, or visible.
    """

    id: str
    title: str
    meaning: str
    used: str
    hidden: str
    visible: str


FORMS: dict[str, Form] = {
    form.id: form
    for form in (
        Form(
            "keep", "boolean keep", "True = may attend",
            "F.scaled_dot_product_attention, JAX, Keras, this package",
            "~keep", "keep",
        ),
        Form(
            "ignore", "boolean ignore", "True = hidden",
            "nn.MultiheadAttention: attn_mask and key_padding_mask",
            "ignore", "~ignore",
        ),
        Form(
            "additive", "additive, −∞", "0 = may attend, −∞ = hidden; added to the scores",
            "F.scaled_dot_product_attention and nn.MultiheadAttention, as floats",
            "additive == -torch.inf", "additive != -torch.inf",
        ),
        Form(
            "extended", "additive, finfo.min", "0 = may attend, the lowest number = hidden",
            "Hugging Face inside the model: the extended mask",
            "extended == torch.finfo(extended.dtype).min",
            "extended != torch.finfo(extended.dtype).min",
        ),
        Form(
            "attention_mask", "1 / 0", "1 = may attend, 0 = hidden",
            "Hugging Face: attention_mask, as tokenizers give it",
            "attention_mask == 0", "attention_mask != 0",
        ),
    )
}  # fmt: skip


def line(source: str, target: str) -> str:
    """The code from one form to another, `dtype` being that of the scores.

    Raises:
        ConfigError: no such form.
    """
    have, need = _form(source), _form(target)
    if source == target:
        return f"{target} = {source}"
    zeros = f"torch.zeros({source}.shape, dtype=dtype)"
    return {
        "keep": f"keep = {have.visible}",
        "ignore": f"ignore = {have.hidden}",
        "additive": f"additive = {zeros}.masked_fill({have.hidden}, -torch.inf)",
        "extended": f"extended = {zeros}.masked_fill({have.hidden}, torch.finfo(dtype).min)",
        "attention_mask": f"attention_mask = ({have.visible}).long()",
    }[need.id]


def _form(name: str) -> Form:
    if name not in FORMS:
        raise ConfigError("form", name, "is not offered", works=f"These work: {', '.join(FORMS)}")
    return FORMS[name]


def convert(
    mask: Tensor, source: str, target: str, *, dtype: torch.dtype = torch.float32
) -> Tensor:
    """A mask in another form; the shape stays.

    Args:
        mask: any shape.
        source, target: names in `FORMS`.
        dtype: of an additive result: that of the scores.

    Raises:
        ConfigError: no such form, the mask is not in the form `source`, or it holds numbers other
            than the form's two (a bias, say), which no other form can carry.
    """
    _form(source), _form(target)
    hidden = _hidden(mask, source)
    if target == "keep":
        return ~hidden
    if target == "ignore":
        return hidden
    if target == "attention_mask":
        return (~hidden).long()
    fill = -torch.inf if target == "additive" else torch.finfo(dtype).min
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(hidden, fill)


def _hidden(mask: Tensor, source: str) -> Tensor:
    kind = str(mask.dtype).removeprefix("torch.")
    if source in ("keep", "ignore"):
        if mask.dtype is not torch.bool:
            raise ConfigError(source, kind, "must be boolean", works="Nearest that works: .bool()")
        return ~mask if source == "keep" else mask.clone()
    if source == "attention_mask":
        if mask.is_floating_point() or mask.is_complex():
            raise ConfigError(source, kind, "must be integers or booleans, 1 or 0")
        low: float = 0
        high: float = 1
    else:
        if not mask.is_floating_point():
            raise ConfigError(source, kind, "must be floating point: it is added to the scores")
        low, high = (-torch.inf if source == "additive" else torch.finfo(mask.dtype).min), 0
    hidden = mask == low
    other = ~(hidden | (mask == high))
    if other.any():
        place = tuple(other.nonzero()[0].tolist())
        raise ConfigError(
            source, mask[place].item(), f"must be {high:g} or {low:g} everywhere; it is not at "
            f"{place}: a bias says more than which keys are hidden",
        )  # fmt: skip
    return hidden
