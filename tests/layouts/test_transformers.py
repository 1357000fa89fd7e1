"""Layers of the attention classes of transformers give their output and their weights."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BloomConfig, GPT2Config, GPT2Model
from transformers.models.bert.modeling_bert import BertAttention
from transformers.models.bloom.modeling_bloom import BloomAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

from mha_core.layouts import find_layers
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, close, randn
from tests.layouts.support import only, randomize, read, run

X = randn(BATCH, TIME, D_MODEL, seed=1)
# Added to the scores: -inf where the key comes later.
CAUSAL = torch.full((TIME, TIME), -torch.inf, dtype=torch.float64).triu(1)


def gpt2_config(**options) -> GPT2Config:
    return GPT2Config(
        n_embd=D_MODEL, n_head=HEADS, n_positions=TIME, vocab_size=11,
        attn_implementation="eager", **options,
    )  # fmt: skip


def bert() -> tuple[BertAttention, list[torch.Tensor]]:
    """BERT's attention, and where its dense layer puts what it makes, before the LayerNorm."""
    config = BertConfig(hidden_size=D_MODEL, num_attention_heads=HEADS, attn_implementation="eager")
    module = randomize(BertAttention(config).double().eval())
    made: list[torch.Tensor] = []
    module.output.dense.register_forward_hook(lambda _module, _given, output: made.append(output))
    return module, made


def without(state, ending):
    return {name: tensor for name, tensor in state.items() if not name.endswith(ending)}


@pytest.mark.parametrize("bias", [True, False])
def test_gpt2(bias):
    theirs = randomize(GPT2Attention(gpt2_config(), layer_idx=0).double().eval())
    if not bias:
        for conv in (theirs.c_attn, theirs.c_proj):
            torch.nn.init.zeros_(conv.bias)
    state = dict(theirs.state_dict())
    state = state if bias else without(state, "bias")
    expected, expected_weights = theirs(X, attention_mask=CAUSAL)

    assert (only(state).layout, only(state).bias) == ("gpt2", bias)
    output, weights = run(read(state), X, causal=True)

    assert close(output, expected)
    assert close(weights, expected_weights)


@pytest.mark.parametrize("bias", [True, False])
def test_bert(bias):
    theirs, made = bert()
    if not bias:
        for linear in (theirs.self.query, theirs.self.key, theirs.self.value, theirs.output.dense):
            torch.nn.init.zeros_(linear.bias)
    state = dict(theirs.state_dict())
    state = state if bias else without(without(state, "e.bias"), "y.bias")
    _, expected_weights = theirs(X)

    found = only(state) if bias else None
    if found:
        assert found.layout == "bert"
        assert not any("LayerNorm" in name for name in found.names)
    output, weights = run(read(state), X)

    assert close(output, made[0])
    assert close(weights, expected_weights)


def test_bloom_is_interleaved():
    config = BloomConfig(hidden_size=D_MODEL, n_head=HEADS)
    theirs = randomize(BloomAttention(config, layer_idx=0).double().eval())
    none = torch.zeros(BATCH * HEADS, 1, TIME, dtype=torch.float64)  # no bias for distance
    expected, expected_weights = theirs(X, torch.zeros_like(X), none, CAUSAL)

    output, weights = run(read(theirs.state_dict(), order="interleaved"), X, causal=True)

    # BLOOM takes its softmax in float32.
    assert close(output, expected, 1e-5)
    assert close(weights, expected_weights, 1e-6)


def test_every_layer_of_a_gpt2_model_is_found_in_natural_order():
    state = GPT2Model(gpt2_config(n_layer=11)).state_dict()

    found = find_layers(state)

    assert [layer.prefix for layer in found] == [f"h.{i}.attn." for i in range(11)]
    assert {layer.layout for layer in found} == {"gpt2"}
