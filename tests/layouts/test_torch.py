"""Layers of nn.MultiheadAttention, packed and separate, give its output and its weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mha_core import ConfigError
from mha_core.layouts import find_layers
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, close, randn
from tests.layouts.support import only, randomize, read, run


def packed(bias: bool = True, **options) -> nn.MultiheadAttention:
    module = nn.MultiheadAttention(
        D_MODEL, HEADS, bias=bias, batch_first=True, dtype=torch.float64, **options
    )
    return randomize(module)


def separate(bias: bool = True) -> nn.MultiheadAttention:
    """torch separates the three only where widths differ: v is narrowed back afterwards."""
    module = packed(bias, vdim=D_MODEL + 1)
    module.v_proj_weight = nn.Parameter(randn(D_MODEL, D_MODEL, seed=9) / 3)
    module.vdim = D_MODEL
    return module


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("make", "layout"), [(packed, "torch"), (separate, "torch-separate")])
def test_output_and_weights_are_those_of_the_module_the_file_came_from(make, layout, bias):
    theirs = make(bias)
    state = theirs.state_dict()
    x = randn(BATCH, TIME, D_MODEL, seed=1)
    blocked = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)  # True = ignore, in torch's module
    expected, expected_weights = theirs(x, x, x, attn_mask=blocked, average_attn_weights=False)

    assert (only(state).layout, only(state).bias) == (layout, bias)
    output, weights = run(read(state), x, causal=True)

    assert close(output, expected)
    assert close(weights, expected_weights)


def test_every_one_of_torchs_encoder_layers_is_found_under_its_name():
    layers = (nn.TransformerEncoderLayer(D_MODEL, HEADS, 11) for _ in range(11))
    model = nn.ModuleDict({"layers": nn.ModuleList(layers)})

    found = find_layers(model.state_dict())

    assert [layer.prefix for layer in found] == [f"layers.{i}.self_attn." for i in range(11)]


def test_case_44_other_widths_of_key_or_value_are_refused():
    state = nn.MultiheadAttention(8, 2, kdim=6, vdim=5).state_dict()

    with pytest.raises(ConfigError, match=r"k_proj_weight=\(8, 6\).*one width.*\(8, 8\)"):
        find_layers(state)


def test_case_44_vdim_alone_is_refused_too():
    state = nn.MultiheadAttention(8, 2, vdim=5).state_dict()

    with pytest.raises(ConfigError, match=r"v_proj_weight=\(8, 5\).*one width"):
        find_layers(state)


@pytest.mark.parametrize("vdim", [D_MODEL, 5])
def test_case_45_an_added_key_and_value_are_refused(vdim):
    state = packed(add_bias_kv=True, vdim=vdim).state_dict()

    with pytest.raises(ConfigError, match=rf"bias_k=\(1, 1, {D_MODEL}\).*add_bias_kv"):
        find_layers(state)


def test_case_45_without_biases_there_are_none():
    module = read(packed(bias=False).state_dict())

    assert [name for name, _ in module.named_parameters()] == [
        f"W_{letter}.weight" for letter in "qkvo"
    ]


def test_case_87_the_names_of_the_cpp_module_are_found():
    d_model = 10
    shapes = {
        "in_proj_weight": (3 * d_model, d_model),
        "in_proj_bias": (3 * d_model,),
        "out_proj.weight": (d_model, d_model),
        "out_proj.bias": (d_model,),
    }
    state = {name: randn(*shape) for name, shape in shapes.items()}

    found = only(state)

    assert set(found.names) == set(shapes)
    with pytest.raises(ConfigError, match=r"heads=3: .*divides the file's d_model=10") as refused:
        read(state, heads=3)
    assert refused.value.repairs[0] == {"heads": 2}
