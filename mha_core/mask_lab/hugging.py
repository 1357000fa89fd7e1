"""A BERT and a GPT-2 attention layer of transformers with the lab's weights, and their masks.

The masks are made by transformers itself (`masking_utils`), from the attention_mask it is given, as
its models do; then the layer runs on the lab's input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mha_core.mask_lab.lab import Lab


def weights(lab: Lab, family: str, attention_mask: Tensor) -> Tensor:
    """Weights (batch, h, time, time) of the layer under an attention_mask.

    Args:
        lab: weights and input.
        family: "bert" or "gpt2".
        attention_mask: (batch, time) of 1 and 0, or additive (batch, 1, time, time).
    """
    with torch.no_grad():
        mask = prepared(lab, family, attention_mask)
        layer = _bert(lab) if family == "bert" else _gpt2(lab)
        found: Tensor = layer(lab.x, attention_mask=mask)[1]
    return found


def prepared(lab: Lab, family: str, attention_mask: Tensor) -> Tensor | None:
    """What transformers makes of an attention_mask before its layers see it."""
    from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

    if family == "bert":
        made = create_bidirectional_mask(
            config=_bert_config(lab), inputs_embeds=lab.x, attention_mask=attention_mask
        )
    else:
        made = create_causal_mask(
            config=_gpt2_config(lab),
            inputs_embeds=lab.x,
            attention_mask=attention_mask,
            cache=None,
        )
    return made if made is None or isinstance(made, Tensor) else None


def _bert_config(lab: Lab) -> Any:
    from transformers.models.bert import BertConfig

    config = BertConfig(hidden_size=lab.module.d_model, num_attention_heads=lab.heads)
    config._attn_implementation = "eager"  # the one that returns weights
    return config


def _gpt2_config(lab: Lab) -> Any:
    from transformers.models.gpt2 import GPT2Config

    config = GPT2Config(n_embd=lab.module.d_model, n_head=lab.heads)
    config._attn_implementation = "eager"
    return config


def _bias(linear: nn.Linear) -> Tensor:
    zeros = torch.zeros(linear.out_features, dtype=linear.weight.dtype, device=linear.weight.device)
    return zeros if linear.bias is None else linear.bias


def _bert(lab: Lab) -> nn.Module:
    from transformers.models.bert import modeling_bert

    state: dict[str, Tensor] = {}
    pairs = (("query", lab.module.W_q), ("key", lab.module.W_k), ("value", lab.module.W_v))
    for name, linear in pairs:
        state |= {f"{name}.weight": linear.weight, f"{name}.bias": _bias(linear)}
    # On the meta device nothing is drawn from torch's global generator.
    with torch.device("meta"):
        layer: nn.Module = modeling_bert.BertSelfAttention(  # type: ignore[no-untyped-call]
            _bert_config(lab)
        )
    layer.load_state_dict(state, assign=True)
    return layer.eval()


def _gpt2(lab: Lab) -> nn.Module:
    from transformers.models.gpt2 import modeling_gpt2

    module = lab.module
    three = (module.W_q, module.W_k, module.W_v)
    # Conv1D holds its weight as (in, out).
    state = {
        "c_attn.weight": torch.cat([linear.weight for linear in three]).T,
        "c_attn.bias": torch.cat([_bias(linear) for linear in three]),
        "c_proj.weight": module.W_o.weight.T,
        "c_proj.bias": _bias(module.W_o),
    }
    with torch.device("meta"):
        layer: nn.Module = modeling_gpt2.GPT2Attention(  # type: ignore[no-untyped-call]
            _gpt2_config(lab), layer_idx=0
        )
    layer.load_state_dict(state, assign=True)
    return layer.eval()
