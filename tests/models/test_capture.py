"""Layers of real model classes, against the attentions and outputs that the models report."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from mha_core import ConfigError, MultiHeadAttention
from mha_core.models import capture, retrace, trace_layer, traced
from tests.models.zoo import HEADS, LAYERS, OTHER, PLAIN, inputs, longformer, made


def reported(model, given):
    """The model's own attentions, as it returns them."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**given, output_attentions=True).attentions


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_layer_is_reproduced_to_float64(name, layer):
    model = made(PLAIN[name], torch.float64)
    given = inputs(name, torch.float64)
    taken = capture(model, given, layer)
    assert taken.uncovered == ()
    own = reported(model, given)[layer]
    assert torch.equal(taken.weights, own)
    one = retrace(taken)
    seen = torch.ones_like(own[..., :1], dtype=torch.bool)
    if one.trace.visible is not None:
        seen = one.trace.visible.broadcast_to(own.shape).any(-1, keepdim=True)
    # These take the softmax in float32 even so.
    limit = 1e-6 if name in ("CLIP text", "OPT", "ViT") else 1e-12
    assert torch.allclose(one.trace.weights * seen, own * seen, rtol=0, atol=limit)
    assert one.weights_difference < limit
    assert one.output_difference < limit
    assert one.trace.config.heads == HEADS


@pytest.mark.parametrize("name", PLAIN)
def test_the_maps_are_not_even(name):
    """A reading that loses the queries, or the keys, would pass on even maps."""
    taken = capture(made(PLAIN[name]), inputs(name), 1)
    even = taken.weights.mean(-1, keepdim=True)
    assert float((taken.weights - even).abs().max()) > 0.05


@pytest.mark.parametrize("name", ["GPT-2", "OPT", "CLIP text"])
def test_a_decoder_is_causal(name):
    trace = trace_layer(made(PLAIN[name]), inputs(name), layer=1)
    assert trace.config.causal
    assert torch.equal(trace.weights.triu(1), torch.zeros_like(trace.weights))


@pytest.mark.parametrize("name", ["BERT", "DistilBERT", "GPT-2"])
def test_padded_keys_are_masked(name):
    trace = trace_layer(made(PLAIN[name]), inputs(name))
    assert not trace.visible.broadcast_to(trace.weights.shape)[1, :, :, 5:].any()
    assert (trace.weights[1, :, :, 5:] == 0).all()
    assert (trace.weights[0].sum(-1) - 1).abs().max() < 1e-6


def test_the_mask_of_an_unpadded_encoder_is_none():
    given = {"input_ids": inputs("BERT")["input_ids"]}
    taken = capture(made(PLAIN["BERT"]), given, 0)
    assert taken.mask is None
    assert not taken.causal


def test_causal_alone_is_no_mask_of_its_own():
    given = {"input_ids": inputs("GPT-2")["input_ids"]}
    taken = capture(made(PLAIN["GPT-2"]), given, 0)
    assert taken.mask is None
    assert taken.causal


def test_whispers_keys_have_no_bias():
    taken = capture(made(PLAIN["Whisper encoder"]), inputs("Whisper encoder"), 0)
    assert (taken.module.W_k.bias == 0).all()
    assert (taken.module.W_q.bias != 0).any()


@pytest.mark.parametrize("name", OTHER)
def test_what_is_not_plain_is_said_and_its_own_maps_are_there(name):
    make, words = OTHER[name]
    model, given = made(make), inputs(name)
    taken = capture(model, given, 1)
    assert taken.module is None
    for word in words:
        assert any(word in sentence for sentence in taken.uncovered)
    assert len(taken.uncovered) == len(words)
    assert all("step" in sentence for sentence in taken.uncovered)
    assert torch.equal(taken.weights, reported(model, given)[1])
    with pytest.raises(ConfigError, match=r"is not plain multi-head attention: .*step"):
        trace_layer(model, given, layer=1)


def test_a_band_of_weights_is_no_map():
    with pytest.raises(ConfigError, match=r"not one \(time, time\) map a head. sliding window"):
        capture(longformer(), inputs("Longformer"), 0)


class Interleaved(nn.Module):
    """Fused rows, [q; k; v] head by head."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.qkv = nn.Linear(12, 36)
        self.proj = nn.Linear(12, 12)
        self.num_heads = 3
        parts = [attention.W_q, attention.W_k, attention.W_v]
        with torch.no_grad():
            weight = torch.stack([part.weight.view(3, 4, 12) for part in parts], 1)
            self.qkv.weight.copy_(weight.reshape(36, 12))
            self.qkv.bias.copy_(torch.stack([p.bias.view(3, 4) for p in parts], 1).flatten())
            self.proj.load_state_dict(attention.W_o.state_dict())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = self.qkv(x).view(2, 5, 3, 3, 4).permute(3, 0, 2, 1, 4)
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(2, 5, 12)), weights


def test_interleaved_rows_are_told_from_stacked_ones_by_what_the_model_gives():
    attention = MultiHeadAttention(12, 3)
    model = nn.Sequential()
    model.add_module("attention", Interleaved(attention))
    model.forward = lambda x: model.attention(x)
    taken = capture(model, {"x": torch.randn(2, 5, 12)}, 0)
    assert torch.equal(taken.module.W_k.weight, attention.W_k.weight)
    assert retrace(taken).weights_difference < 1e-6


class Sharpened(Interleaved):
    """Does what no reading of its weights gives."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, weights = super().forward(x)
        return out, weights.square() / weights.square().sum(-1, keepdim=True)


def test_a_trace_that_does_not_reproduce_the_model_is_refused():
    model = nn.Sequential()
    model.add_module("attention", Sharpened(MultiHeadAttention(12, 3)))
    model.forward = lambda x: model.attention(x)
    taken = capture(model, {"x": torch.randn(2, 5, 12)}, 0)
    assert taken.module is None
    assert "is not reproduced: our weights differ" in taken.uncovered[0]


def hooks(model):
    """transformers keeps some of its own, once it has run."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_the_model_is_left_as_it_was():
    model = made(PLAIN["BERT"])
    reported(model, inputs("BERT"))
    there = hooks(model)
    model.set_attn_implementation("sdpa")
    model.train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trace_layer(model, inputs("BERT"))
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert hooks(model) == there


def test_sessions_that_run_one_model_at_once_take_what_is_theirs():
    model = made(PLAIN["BERT"])
    ids = inputs("BERT")["input_ids"]
    rows = [ids[:1], ids[1:]]
    alone = [capture(model, {"input_ids": row}, 1).weights for row in rows]
    wrong = []

    def session(n: int) -> None:
        for _ in range(10):
            taken = capture(model, {"input_ids": rows[n]}, 1)
            if not torch.equal(taken.weights, alone[n]):
                wrong.append(n)

    threads = [threading.Thread(target=session, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_bad_requests_are_refused():
    model = made(PLAIN["BERT"])
    reported(model, inputs("BERT"))
    there = hooks(model)
    with pytest.raises(ConfigError, match="layer=2: must be from 0 to 1"):
        capture(model, inputs("BERT"), 2)
    with pytest.raises(ConfigError, match="layer=-1: must be from 0 to 1"):
        capture(model, inputs("BERT"), -1)
    with pytest.raises(ConfigError, match="has no self-attention"):
        capture(nn.Linear(2, 2), {"input": torch.ones(2, 2)}, 0)
    with pytest.raises(ConfigError, match="does not run on this input"):
        capture(model, {"input_ids": torch.full((1, 3), 10**6)}, 0)
    assert hooks(model) == there


def test_differences_come_with_the_trace():
    one = traced(made(PLAIN["BERT"]), inputs("BERT"), layer=1)
    assert 0 <= one.weights_difference < 1e-6
    assert one.trace.milliseconds > 0
