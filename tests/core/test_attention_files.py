"""Files of the user's own attention maps: read exactly, or refused with what would work."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch

from mha_core import ConfigError
from mha_core.attention_files import read_attention
from mha_core.attention_given import given_attention
from tests.core.attention_support import SHAPE, maps, npy, npz, pt
from tests.core.support import TIME, randn

LAYERS = 13
EAGER = 'attn_implementation="eager".*set_attn_implementation.*output_attentions=True'


def packed(kind, layers):
    """A file of several layers, as each kind of file holds them."""
    if kind == "npz":
        return npz(*[layer.numpy() for layer in layers])
    if kind == "safetensors":
        return safetensors.torch.save({f"layer.{i}.w": layer for i, layer in enumerate(layers)})
    return pt(tuple(layers))


@pytest.mark.parametrize("kind", ["npz", "safetensors", "pt", "pth"])
@pytest.mark.parametrize("shape", [SHAPE, SHAPE[1:]])
def test_every_layer_comes_back_bit_for_bit_in_the_models_order(kind, shape):
    layers = [maps(*shape, seed=seed) for seed in range(LAYERS)]
    found = read_attention(packed(kind, layers), f"some.{kind.upper()}")
    assert len(found.layers) == len(found.names) == len(found.dtypes) == LAYERS
    for layer, back in zip(layers, found.layers, strict=True):
        assert back.dtype is torch.float32
        assert torch.equal(back, layer if layer.dim() == 4 else layer[None])
    assert found.names[10].replace("arr_", "").strip("layer. w") == "10"  # not after the first
    assert found.source == f"some.{kind.upper()}"


@pytest.mark.parametrize("made", [npy, lambda one: npz(one), lambda one: npz(attentions=one)])
def test_stacked_layers_are_layers_and_not_a_batch(made):
    stacked = maps(LAYERS, *SHAPE).numpy()
    found = read_attention(made(stacked), "a.npy" if made is npy else "a.npz")
    assert [tuple(layer.shape) for layer in found.layers] == [SHAPE] * LAYERS
    np.testing.assert_array_equal(torch.stack(found.layers).numpy(), stacked)


@pytest.mark.parametrize("kind", ["pt", "safetensors", "npz", "npy"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_is_read_and_named(kind, dtype):
    weights = maps(*SHAPE, dtype=dtype)
    if kind.startswith("np"):
        # NumPy keeps the two bytes of JAX's bfloat16 and loses its name.
        raw = weights.view(torch.int16).numpy().view("V2") if dtype is torch.bfloat16 else weights
        data = npy(np.asarray(raw)) if kind == "npy" else npz(np.asarray(raw))
    else:
        data = pt(weights) if kind == "pt" else safetensors.torch.save({"a": weights})
    found = read_attention(data, f"a.{kind}")
    assert torch.equal(found.layers[0], weights.float())
    assert found.dtypes == (str(dtype).removeprefix("torch."),)


def test_big_endian_and_fortran_order_are_numbers_like_any_other():
    weights = maps(*SHAPE).numpy()
    for odd in (weights.astype(">f4"), np.asfortranarray(weights)):
        found = read_attention(npy(odd), "a.npy")
        np.testing.assert_array_equal(found.layers[0].numpy(), weights)
        assert found.dtypes == ("float32",)


def test_the_entry_called_attentions_is_taken_alone():
    weights = maps(*SHAPE)
    tokens = np.array(["the"] * TIME)
    found = read_attention(npz(tokens=tokens, attentions=weights.numpy()), "a.npz")
    assert torch.equal(found.layers[0], weights)
    found = read_attention(pt({"ids": torch.arange(3), "attentions": (weights, weights)}), "a.pt")
    assert found.names == ("layer 0", "layer 1")
    with pytest.raises(
        ConfigError, match=r'tokens=.*floating-point.*call the weights "attentions"'
    ):
        read_attention(npz(tokens=tokens, mine=weights.numpy()), "a.npz")


def test_three_axes_are_heads_whatever_the_batch_was():
    # jessevig/bertviz#101: a squeezed batch. Nothing is guessed.
    found = read_attention(npy(maps(4, 5, 5).numpy()), "a.npy")
    assert found.layers[0].shape == (1, 4, 5, 5)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (pt(()), "a.pt"),
        (pt([]), "a.pt"),
        (pt(None), "a.pt"),
        (pt((None, None)), "a.pt"),
        (pt((maps(*SHAPE), None)), "a.pt"),
        (pt({"attentions": ()}), "a.pt"),
        (pt({"attentions": None}), "a.pt"),
        (pt({}), "a.pt"),
        (npz(), "a.npz"),
        (safetensors.torch.save({}), "a.safetensors"),
    ],
)
def test_no_weights_are_explained(data, name):
    with pytest.raises(ConfigError, match=f"the model returned none.*sdpa.*{EAGER}"):
        read_attention(data, name)


def test_a_layer_that_is_none_is_named():
    with pytest.raises(ConfigError, match=r"a\.pt, layer 1=None: holds no weights"):
        read_attention(pt((maps(*SHAPE), None)), "a.pt")


def test_a_models_whole_output_is_read_and_several_kinds_of_attention_are_asked_about():
    weights = (maps(*SHAPE), maps(*SHAPE, seed=1))
    found = given_attention(SimpleNamespace(attentions=weights))
    assert torch.equal(found.layers[1], weights[1])
    both = {"logits": randn(3), "encoder_attentions": weights, "cross_attentions": weights}
    with pytest.raises(ConfigError, match=r"cross_attentions.*encoder.*Give one of them"):
        given_attention(both)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (randn(3, 4, 12, 64), r"must not be negative.*\(3, 4, 12, 64\).*scores.*\(B, h, Tq, Tk\)"),
        (randn(3, 4, 12, 64).abs() / 9, r"=\(3, 4, 12, 64\): rows must sum to 1.*on average"),
        (randn(3, 4, 12, 64).abs() * 9, r"must be from 0 to 1.*\(3, 4, 12, 64\)"),
        (randn(3, 5), r"=\(3, 5\): has 2 axes.*average_attn_weights=False"),
        (randn(3), r"=\(3,\): has 1 axes\. Accepted: .*\(B, h, Tq, Tk\)"),
        (randn(2, 2, 2, 2, 2, 2), r"\(2, 2, 2, 2, 2, 2\): has 6 axes"),
        (randn(2, 0, 3, 3), r"\(2, 0, 3, 3\): has an empty axis"),
        (randn(0, 2, 3, 5, 5), r"\(0, 2, 3, 5, 5\): must have from 1 to"),
        (torch.ones(2, 3, 5, 5, dtype=torch.int64), r"='int64': must hold floating-point"),
        (torch.ones(2, 3, 5, 5, dtype=torch.complex64), r"='complex64': must hold floating-point"),
    ],
)
def test_arrays_that_are_no_maps_are_refused_with_the_shape_found(array, message):
    # huggingface/transformers#33417: an output where the weights were expected.
    with pytest.raises(ConfigError, match=message):
        read_attention(pt(array), "a.pt")
    with pytest.raises(ConfigError, match=message):
        read_attention(npy(array.numpy()), "a.npy")


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (((maps(*SHAPE),), (maps(*SHAPE),)), r"generate\(\).*outputs.attentions\[0\]"),
        ([1.0, 2.0], "layer 0='float': must be an array"),
        ("words", "a.pt='str': must be an array"),
        ({"a": {"b": maps(*SHAPE)}}, "='dict': must be an array"),
        (maps(*SHAPE).to_sparse(), "must be a dense tensor"),
        (torch.empty(SHAPE, device="meta"), "must be a dense tensor"),
        ([maps(5, 5)] * 3, r"layer 0=\(5, 5\): has 2 axes"),
        ([maps(3, 5, 5)] * 1025, "'1025 arrays': must hold at most 1024 layers"),
    ],
)
def test_other_things_in_a_pt_file_are_refused_for_what_they_are(thing, message):
    with pytest.raises(ConfigError, match=message):
        read_attention(pt(thing), "a.pt")


def test_a_dictionary_that_holds_itself_ends():
    loop = {}
    loop["a"] = loop
    with pytest.raises(ConfigError, match="must be an array"):
        read_attention(pt(loop), "a.pt")
