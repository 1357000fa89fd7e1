"""All heads of a layer in one figure, in one line, for whatever a model returned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from mha_core import ConfigError
from mha_core.attention_files import read_attention
from mha_core.attention_given import given_attention
from mha_core.figures.head_grid import head_grid
from tests.core.attention_support import npz
from tests.core.support import randn
from tests.figures.head_grid_support import (
    BATCH,
    HEADS,
    TIME,
    parts,
    shown,
    weights,
    words,
)


def bert(implementation, layers=2):
    torch.manual_seed(0)
    return BertModel(
        BertConfig(
            hidden_size=24,
            num_hidden_layers=layers,
            num_attention_heads=3,
            intermediate_size=32,
            vocab_size=50,
            max_position_embeddings=32,
            attn_implementation=implementation,
        )
    ).eval()


IDS = torch.arange(10).view(2, 5)


def test_a_model_of_transformers_is_drawn_in_one_line():
    outputs = bert("eager")(IDS, output_attentions=True)
    figure = head_grid(outputs.attentions, layer=1, item=1)
    np.testing.assert_array_equal(shown(figure), outputs.attentions[1][1].detach().numpy())
    assert "layer 1 · batch item 1 of 2 · 3 heads · 5 × 5" in words(parts(figure)[2])[0]
    assert head_grid(outputs, layer=1, item=1) == figure
    one = bert("eager", layers=1)(IDS, output_attentions=True)
    assert len(parts(head_grid(one.attentions))[0]) == 3


def test_a_model_under_sdpa_returns_none_and_is_told_how_to():
    model = bert("sdpa")
    outputs = model(IDS, output_attentions=True)
    assert outputs.attentions == ()
    for given in (outputs.attentions, outputs, model(IDS), model(IDS).attentions):
        with pytest.raises(ConfigError, match=r"returned none.*sdpa.*\.set_attn_implementation"):
            head_grid(given, layer=0)
    model.set_attn_implementation("eager")  # the advice works
    assert len(parts(head_grid(model(IDS, output_attentions=True), layer=0))[0]) == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_every_dtype_and_with_gradients_are_drawn(dtype):
    # pytorch/pytorch#110285: neither converts to NumPy as it is.
    given = weights(BATCH, HEADS, TIME, TIME).to(dtype).requires_grad_()
    np.testing.assert_array_equal(shown(head_grid(given, item=1)), given[1].detach().float())
    assert "sum to 1" not in words(parts(head_grid(given))[2])[0]


def test_arrays_lists_and_read_files_are_drawn_alike():
    given = weights(BATCH, HEADS, TIME, TIME)
    expected = head_grid(given)
    read = read_attention(npz(given.numpy()), "a.npz")
    for other in (given.numpy(), [given], (given.numpy(),), {"attentions": given}, given[None]):
        assert head_grid(other) == expected
    np.testing.assert_array_equal(shown(head_grid(read)), shown(expected))
    np.testing.assert_array_equal(shown(head_grid(given[1])), given[1])
    # Read at half the precision, rows keep the tolerance of what they were.
    coarse = given_attention(given.to(torch.bfloat16))
    assert "sum to 1" not in words(parts(head_grid(coarse))[2])[0]


@pytest.mark.parametrize("layer", [None, 2, -1, True, 0.5, "0"])
def test_of_several_layers_one_must_be_named(layer):
    layers = (weights(BATCH, HEADS, TIME, TIME),) * 2
    with pytest.raises(ConfigError, match=r"layer=.*: must be from 0 to 1\. Nearest") as caught:
        head_grid(layers, layer=layer)
    head_grid(layers, **caught.value.repairs[0])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"layer": 1}, "layer=1: must be from 0 to 0"),
        ({"item": 2}, "batch item=2: must be from 0 to 1"),
        ({"item": -1}, "batch item=-1: must be from 0 to 1"),
        ({"scale": "sqrt"}, "scale='sqrt': is not offered"),
        ({"columns": 0}, "columns=0: must be a whole number from 1"),
        ({"max_side": 0}, "max_side=0: must be a whole number from 1"),
        ({"tokens": ["a"] * 4}, "'4 tokens': must be 5.*5 queries"),
        ({"key_tokens": ["a"] * 4}, "'4 tokens': must be 5.*5 keys"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(how, message):
    with pytest.raises(ConfigError, match=message):
        head_grid(weights(BATCH, HEADS, TIME, TIME), **how)


def test_scores_are_refused_with_the_item_and_layer_they_are_in():
    layers = [weights(BATCH, HEADS, TIME, TIME), randn(BATCH, HEADS, TIME, TIME)]
    with pytest.raises(ConfigError, match=r"layer 1=-.*batch item 1, head.*look like scores"):
        head_grid(layers, layer=1, item=1)
