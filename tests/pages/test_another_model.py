"""Another model of transformers, from a folder: the pipeline where it is plain, else its maps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedTokenizerFast
from transformers.models.vit import ViTConfig, ViTImageProcessorPil, ViTModel

from tests.models.zoo import HEADS, LAYERS, OTHER, PLAIN, made
from tests.pages.own import focus, labels, open_source, proofs, tiles
from tests.pages.support import (
    address,
    components,
    config,
    piece,
    pieces,
    run,
    said,
    set_state,
    text,
)

WORDS = ["[UNK]", "[PAD]", "the", "cat", "sat", "on", "a", "mat", ".", "and", "slept"]
SENTENCE = "the cat sat on a mat"
ROOT = Path(__file__).parents[2]


def saved(folder: Path, make: Callable[[], nn.Module]) -> Path:
    """A model in a folder, as `save_pretrained` leaves it, with a tokenizer of whole words."""
    model: Any = made(make)
    model.save_pretrained(folder)
    words = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]"
    )
    tokenizer.save_pretrained(folder)
    assert (folder / "model.safetensors").is_file()
    return folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "tiny-gpt2", PLAIN["GPT-2"])


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "tiny-llama", OTHER["Llama"][0])


def opened(model: str | Path, sentences: str = SENTENCE) -> AppTest:
    """The page on a model, named as a person does."""
    at = open_source("other")
    at.text_area(key="w_sentences").set_value(sentences)
    at.text_input(key="w_model").set_value(str(model))
    return run(at)


def own_weights(folder: Path, layer: int, sentence: str = SENTENCE) -> Tensor:
    """What the model itself says, (h, time, time)."""
    model: Any = AutoModel.from_pretrained(folder, attn_implementation="eager")
    ids = torch.tensor([[WORDS.index(word) for word in sentence.split()]])
    with torch.no_grad():
        weights: Tensor = model(input_ids=ids, output_attentions=True).attentions[layer][0]
    return weights


def test_nothing_typed_yet_is_nothing_wrong() -> None:
    at = open_source("other")
    assert not at.error
    assert "must be a local folder, or the id of a model" in at.sidebar.info[0].value
    assert config(at).d_model == 32, "the last view stays"
    assert "w_download" not in [toggle.key for toggle in at.toggle]


def test_a_plain_model_has_the_whole_pipeline(gpt2: Path) -> None:
    at = opened(gpt2)
    assert said(at) == ""
    assert (config(at).heads, config(at).d_model, config(at).time) == (HEADS, 24, 6)
    assert config(at).causal, "GPT-2 sees what is before"
    assert labels(at) == SENTENCE.split()
    assert proofs(at)["equals tiny-gpt2"]
    assert proofs(at)["no leak from the future"]
    assert {"flow_chart", "heads"} <= set(components(at))
    assert at.slider(key="w_layer").max == LAYERS - 1
    for layer in range(LAYERS):
        at.slider(key="w_layer").set_value(layer)
        run(at)
        own = own_weights(gpt2, layer)
        for head in range(HEADS):
            shown = focus(set_state(at, head=head))
            assert_allclose(np.nan_to_num(shown), own[head], atol=1e-6)
    assert np.isnan(shown[0, 1:]).all(), "what is masked is not zero"


def test_a_model_that_is_not_plain_has_its_own_maps_and_says_why(llama: Path) -> None:
    at = opened(llama)
    assert not at.error
    told = said(at)
    assert "grouped queries: 3 query heads share 1" in told
    assert "rotary positions" in told
    assert told.count("Not plain multi-head attention") == len(at.warning)
    assert "flow_chart" not in components(at)
    assert not [markup for markup in pieces(at) if 'class="proofs"' in markup]
    assert labels(at) == SENTENCE.split()
    at.slider(key="w_layer").set_value(1)
    run(at)
    own = own_weights(llama, 1)
    for head in range(HEADS):
        shown = focus(set_state(at, head=head))
        assert_allclose(np.nan_to_num(shown), own[head], atol=1e-6)
    assert "tiny-llama" in text(piece(at, 'class="sizes"') + piece(at, "set the sizes"))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_sentences_are_a_padded_batch(name: str, request: pytest.FixtureRequest) -> None:
    at = opened(request.getfixturevalue(name), f"{SENTENCE}\nthe cat slept")
    assert not at.error
    at.number_input(key="w_item").set_value(1)
    run(at)
    assert labels(at) == ["the", "cat", "slept", "[PAD]", "[PAD]", "[PAD]"]
    assert np.isnan(focus(at)[0, 3:]).all(), "no word attends to padding"
    at.toggle(key="w_plain").set_value(True)
    assert labels(run(at)) == ["the", "cat", "slept"]


def test_from_one_model_to_the_next(gpt2: Path, llama: Path) -> None:
    at = opened(llama)
    at.slider(key="w_layer").set_value(1)
    run(at)
    at.text_input(key="w_model").set_value(f"  {gpt2}  ")
    run(at)
    assert said(at) == ""
    assert proofs(at)["equals tiny-gpt2"]
    open_source("minilm", at)
    assert said(at) == ""
    assert config(at).heads == 12


def test_a_folder_that_is_not_there_is_refused(gpt2: Path) -> None:
    at = opened(gpt2)
    before = tiles(at)
    at.text_input(key="w_model").set_value(str(gpt2 / "nowhere"))
    run(at)
    (error,) = at.sidebar.error
    assert "must be a folder that is there, or a hub id" in error.value
    assert tiles(at) == before, "the last view stays"
    at.text_input(key="w_model").set_value(str(gpt2))
    run(at)
    assert said(at) == ""


@pytest.mark.parametrize(
    "files", [{}, {"config.json": "{"}, {"config.json": '{"model_type": "gpt2"}'}]
)
def test_a_folder_without_a_model_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    at = opened(tmp_path)
    assert "cannot be loaded" in at.sidebar.error[0].value
    assert config(at).d_model == 32


def test_weights_that_could_run_code_are_not_loaded(tmp_path: Path) -> None:
    folder = saved(tmp_path / "pickled", PLAIN["GPT-2"])
    torch.save(made(PLAIN["GPT-2"]).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    at = opened(folder)
    assert "cannot be loaded" in at.sidebar.error[0].value


def test_a_hub_id_is_not_fetched_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    at = opened("someone/some-model")
    (error,) = at.sidebar.error
    assert "is downloaded only when asked for" in error.value
    assert at.toggle(key="w_download").value is False
    assert config(at).d_model == 32


def test_no_address_can_carry_it(gpt2: Path) -> None:
    assert address(opened(gpt2)) == {}


def test_too_long_a_sentence_is_refused(llama: Path) -> None:
    at = opened(llama)
    before = tiles(at)
    at.text_area(key="w_sentences").set_value("cat " * 3000)
    run(at)
    assert "must have at most 2048 tokens" in said(at)
    assert tiles(at) == before


def test_its_program_gives_the_same_numbers(gpt2: Path, tmp_path: Path) -> None:
    at = set_state(opened(gpt2), w_code=True, head=2)
    program = at.code[0].value + "\nimport numpy\nnumpy.save('out.npy', weights.numpy())\n"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    weights = np.load(tmp_path / "out.npy")
    assert_allclose(np.nan_to_num(focus(at)), weights[0, 2], atol=1e-7)


def test_a_folder_of_a_vision_model_reads_the_picture(tmp_path: Path) -> None:
    config = ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=8,
        image_size=32, patch_size=8,
    )  # fmt: skip
    ViTModel(config).save_pretrained(tmp_path)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    at = open_source("other")
    at.text_input(key="w_model").set_value(str(tmp_path))
    at = run(at)
    assert not at.error
    assert not at.text_area
    assert config.num_attention_heads == at.session_state["good"].config.heads
    assert at.session_state["good"].labels(0)[:2] == ("[CLS]", "patch 0,0")
    assert f"equals {tmp_path.name}" in piece(at, 'class="proofs"')
