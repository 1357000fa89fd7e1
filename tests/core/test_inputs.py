"""The same seed is the same numbers, whatever else this or another process does with torch."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mha_core
from mha_core import ConfigError, MHAConfig
from mha_core.inputs import build_module, positions, random_input, text_input, tokenize
from tests.core.support import D_MODEL, TIME, close, config

WORDS = ["the", "cat", "saw", "the", "dog"]

DIGEST = """
import hashlib
from mha_core import MHAConfig
from mha_core.inputs import build_module, random_input, text_input
config = MHAConfig(batch=2, time=5, d_model=21, heads=3, seed=7)
tensors = [*build_module(config).parameters(), random_input(config)]
tensors.append(text_input(config, "the cat saw the dog".split()))
data = b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)
print(hashlib.sha256(data).hexdigest())
"""


def drawn(made):
    """Everything drawn for a configuration."""
    tensors = list(build_module(made).parameters())
    return [*tensors, random_input(made), text_input(made, WORDS)]


def digest(tensors):
    data = b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(data).hexdigest()


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def weights(made):
    return list(build_module(made).parameters())


def test_a_fresh_process_draws_the_same_numbers():
    here = digest(drawn(config(dtype="float32", seed=7)))
    there = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=Path(mha_core.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert there.stdout.strip() == here


def test_the_numbers_of_a_copied_address_never_change():
    made = MHAConfig()
    module = build_module(made)
    words = text_input(made, ["the", "cat", "saw", "the", "dog", "run"])
    frozen = [
        (module.W_q.weight[0, :3], [0.171203, -0.132872, -0.271596]),
        (module.W_o.weight[-1, -3:], [-0.265249, -0.118445, -0.225707]),
        (module.W_q.bias[:3], [0.121429, -0.016635, -0.134849]),
        (module.W_o.bias[-3:], [0.150107, 0.090571, -0.072223]),
        (random_input(made)[1, 5, :3], [-1.675839, -0.349614, -0.075633]),
        (words[1, 1, :3], [1.402310, 1.171862, 1.115055]),
    ]
    for drawn_now, drawn_once in frozen:
        assert drawn_now.tolist() == pytest.approx(drawn_once, abs=1e-5)


def test_torchs_global_generator_neither_matters_nor_moves():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = drawn(config())
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    torch.randn(17)
    assert same(first, drawn(config()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_torchs_default_dtype_neither_matters_nor_changes(dtype):
    first = drawn(config())
    torch.set_default_dtype(dtype)
    try:
        again = drawn(config())
        assert torch.get_default_dtype() is dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(first, again)


def test_another_seed_draws_other_numbers_everywhere():
    for one, other in zip(drawn(config(seed=0)), drawn(config(seed=1)), strict=True):
        assert not torch.equal(one, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"causal": True},
        {"heads": 7},
        {"batch": 3},
        {"time": 11},
        {"dropout": 0.3},
        {"scale": 0.5},
        {"fill": -1e9},
    ],
)
def test_weights_depend_on_the_seed_and_d_model_alone(changes):
    assert same(weights(config()), weights(config(**changes)))


def test_leaving_the_biases_out_leaves_the_matrices_as_they_were():
    module, without = build_module(config()), build_module(config(bias=False))
    for name in ("W_q", "W_k", "W_v", "W_o"):
        assert torch.equal(getattr(module, name).weight, getattr(without, name).weight)
        assert getattr(without, name).bias is None


@pytest.mark.parametrize("changes", [{"causal": True}, {"heads": 7}, {"dropout": 0.3}])
def test_the_input_depends_on_the_seed_and_its_own_sizes_alone(changes):
    changed = config(**changes)
    assert torch.equal(random_input(changed), random_input(config()))
    assert torch.equal(text_input(changed, WORDS), text_input(config(), WORDS))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_every_dtype_is_a_cast_of_the_same_draw(dtype):
    made = config(dtype=dtype)
    for cast, draw in zip(drawn(made), drawn(config(dtype="float32")), strict=True):
        assert cast.dtype is made.torch_dtype
        assert torch.equal(cast, draw.to(made.torch_dtype))


def test_streams_are_apart_no_tensor_repeats_another():
    tensors = [tensor.flatten()[:TIME] for tensor in drawn(config())]
    for index, one in enumerate(tensors):
        assert not any(torch.equal(one, other) for other in tensors[index + 1 :])


def test_weights_are_xavier_uniform_and_biases_within_their_bound():
    module = build_module(MHAConfig(d_model=512, heads=8))
    bound = math.sqrt(6 / (512 + 512))
    for layer in (module.W_q, module.W_k, module.W_v, module.W_o):
        assert 0.99 * bound < layer.weight.max().item() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
        assert layer.bias.abs().max().item() <= 1 / math.sqrt(512)
    assert random_input(MHAConfig(time=500)).std().item() == pytest.approx(1, rel=0.02)


def test_the_module_is_in_training_only_where_there_is_dropout():
    assert not build_module(config()).training
    assert build_module(config(dropout=0.1)).training


def test_threads_that_draw_at_once_draw_what_each_draws_alone():
    made = [config(seed=seed) for seed in range(4)]
    alone = [drawn(one) for one in made]
    together: dict[int, list[torch.Tensor]] = {}
    threads = [
        threading.Thread(target=lambda one=one: together.update({one.seed: drawn(one)}))
        for one in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(alone[seed], together[seed]) for seed in range(4))


def test_a_word_has_one_vector_wherever_it_stands():
    x = text_input(config(dtype="float32"), WORDS) - positions(TIME, D_MODEL)
    assert close(x[:, 0], x[:, 3], 1e-6)
    assert not close(x[:, 0], x[:, 1], 0.1)
    moved = text_input(config(dtype="float32"), WORDS[::-1]) - positions(TIME, D_MODEL)
    assert close(moved[:, 0], x[:, 4], 1e-6)


def test_batch_items_of_a_text_differ():
    x = text_input(config(), WORDS)
    assert not close(x[0], x[1], 0.1)


@given(st.integers(1, 12), st.integers(1, 12))
def test_positions_are_the_papers_sines_and_cosines(time, d_model):
    encoding = positions(time, d_model)
    assert encoding.shape == (time, d_model)
    for place in range(time):
        for column in range(d_model):
            angle = place / 10000 ** (2 * (column // 2) / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert encoding[place, column].item() == pytest.approx(expected, abs=1e-5)


def test_a_text_of_another_length_names_both_and_offers_the_right_time():
    with pytest.raises(ConfigError, match="time=5: must be the number of tokens, 3") as caught:
        text_input(config(), ["a", "b", "c"])
    repaired = replace(config(), **caught.value.repairs[0])
    assert text_input(repaired, ["a", "b", "c"]).shape == (2, 3, D_MODEL)


def test_tokens_are_the_words_as_typed():
    text = "  Don't\tsplit  12.5 <b>x</b>\n=1+1 café the the "
    assert tokenize(text) == ["Don't", "split", "12.5", "<b>x</b>", "=1+1", "café", "the", "the"]


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_text_without_words_is_refused(text):
    with pytest.raises(ConfigError, match=r"text=.*at least one word"):
        tokenize(text)


def test_a_text_with_too_many_words_is_refused_with_both_numbers():
    assert len(tokenize("a " * 7, limit=7)) == 7
    with pytest.raises(ConfigError, match="'8 words': must have at most 7 words"):
        tokenize("a " * 8, limit=7)
