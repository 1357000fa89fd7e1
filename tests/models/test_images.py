"""Vision models of transformers, from a folder as a user has it."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from transformers.models.dinov2_with_registers import (
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
)
from transformers.models.vit import ViTConfig, ViTImageProcessorPil, ViTModel

from mha_core import ConfigError
from mha_core.__main__ import main
from mha_core.models import retrace
from mha_core.models.hub import load

SIZES = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        models = {
            "vit": ViTModel(ViTConfig(intermediate_size=8, **SIZES)),
            "registers": Dinov2WithRegistersModel(
                Dinov2WithRegistersConfig(num_register_tokens=2, **SIZES)
            ),
        }
    for name, model in models.items():
        made[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(made[name])
        ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(made[name])
    return made


def picture(mode="RGB", size=(40, 30)):
    return Image.linear_gradient("L").resize(size).convert(mode)


@pytest.mark.parametrize(("name", "before"), [("vit", 1), ("registers", 3)])
def test_its_tokens_are_cls_registers_and_patches(folders, name, before):
    encoded = load(str(folders[name])).encode(picture())
    tokens = encoded.tokens[0]
    assert tokens[:before] == ("[CLS]", "[REG 1]", "[REG 2]")[:before]
    assert tokens[before:] == tuple(f"patch {r},{c}" for r in range(4) for c in range(4))
    assert encoded.special[0] == (True,) * before + (False,) * 16
    assert encoded.lengths == (before + 16,)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["vit", "registers"])
def test_its_layers_are_reproduced(folders, name, layer):
    model = load(str(folders[name]))
    encoded = model.encode(picture())
    one = retrace(model.capture(encoded, layer))
    with torch.no_grad():
        own = model.model(**encoded.inputs, output_attentions=True).attentions[layer]
    assert torch.allclose(one.trace.weights, own, atol=1e-6)
    assert one.weights_difference < 1e-6


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "F"])
def test_pictures_of_any_mode(folders, mode):
    assert load(str(folders["vit"])).encode(picture(mode, (1, 9))).lengths == (17,)


def test_what_is_no_picture_is_refused(folders):
    with pytest.raises(ConfigError, match="picture"):
        load(str(folders["vit"])).encode(b"no picture")


def test_the_command_line_takes_a_picture(folders, tmp_path, capsys):
    picture().save(tmp_path / "p.png")
    given = ["table", "--model", str(folders["vit"])]
    assert main([*given, "--image", str(tmp_path / "p.png"), "--layer", "1"]) == 0
    assert "(1, 3, 17, 8)" in capsys.readouterr().out
    assert main(given) == 2
    assert "image='': must be given" in capsys.readouterr().err
    assert main([*given, "--text", "words"]) == 2
    assert "is nothing that a vision model reads" in capsys.readouterr().err
    assert main([*given, "--image", str(tmp_path / "none.png")]) == 2
    assert "No such file" in capsys.readouterr().err
