"""Layers are found by name, in order, with what must be asked; what cannot be built says why."""

from __future__ import annotations

import pytest
import torch

from mha_core import ConfigError
from mha_core.layouts import LAYOUTS, build, find_layers, survey
from tests.core.support import D_MODEL, HEADS, seeded
from tests.layouts.support import choices, layer, only, read, same


def renamed(state, **names):
    """The state with parts of its names exchanged; "__" stands for a dot."""
    changed = {}
    for name, tensor in state.items():
        for old, new in names.items():
            name = name.replace(old.replace("__", "."), new.replace("__", "."))
        changed[name] = tensor
    return changed


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_told_from_the_others(layout):
    assert only(layer(layout, prefix="h.3.")).layout == layout


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("qkv", {"proj": "out_proj"}),
        ("qkv_proj", {"o_proj": "out_proj"}),
        ("Wqkv", {"out_proj": "W_o"}),
        ("query_key_value", {"dense": "c_proj"}),
        ("c_attn", {"c_proj": "proj"}),
        ("query", {"dense": "output__dense"}),
        ("to_qkv", {"to_out": "to_out__0"}),
    ],
)
def test_an_output_projection_of_another_layouts_name_is_taken(layout, names):
    state = renamed(layer(layout), **names)
    found = only(state)

    assert found.layout == layout
    assert found.weights[-1].startswith(next(iter(names.values())).replace("__", "."))
    assert set(found.names) == set(state)
    assert same(build(state, found, heads=HEADS, **choices(layout)), seeded())


def test_layers_come_in_natural_order_whatever_the_order_of_the_file():
    state = {}
    for i in (10, 2, 0, 11, 1):
        state |= layer("gpt2", prefix=f"h.{i}.attn.")

    assert [found.prefix for found in find_layers(state)] == [
        f"h.{i}.attn." for i in (0, 1, 2, 10, 11)
    ]


def test_a_name_that_only_ends_alike_is_no_layer():
    state = renamed(layer("torch"), in_proj_weight="my_in_proj_weight")

    with pytest.raises(ConfigError, match="no name of a known attention layout"):
        find_layers(state)


def test_heads_are_always_asked_with_those_that_divide():
    (question,) = only(layer("torch")).asks

    assert (question.field, question.choices) == ("heads", (1, 3, 7, 21))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exactly_what_the_layout_leaves_open_is_asked(layout):
    fields = {question.field for question in only(layer(layout)).asks}

    assert fields == {"heads", *choices(layout)}


@pytest.mark.parametrize("layout", ["mha_core", "o_proj", "bert", "distilbert", "to_q"])
def test_biases_that_are_missing_are_zeros_and_said_to_be(layout):
    state = layer(layout)
    key, last = LAYOUTS[layout].biases[1], LAYOUTS[layout].biases[3]
    del state[key], state[last]
    found = only(state)
    module = read(state)

    assert found.bias
    assert any(note.endswith(f"zeros instead: {key}, {last}") for note in found.notes)
    assert not module.W_k.bias.any()
    assert not module.W_o.bias.any()
    assert torch.equal(module.W_q.bias, seeded().W_q.bias)
    assert torch.equal(module.W_v.bias, seeded().W_v.bias)


def test_a_lone_bias_of_the_output_leaves_the_packed_ones_zero():
    state = layer("torch")
    del state["in_proj_bias"]
    module = read(state)

    assert not module.W_q.bias.any()
    assert torch.equal(module.W_o.bias, seeded().W_o.bias)


def test_without_any_bias_there_is_none_and_no_note():
    found = only(layer("bert", bias=False))

    assert not found.bias
    assert found.notes == ()


def test_what_stands_beside_a_layer_and_is_not_used_is_said_up_to_a_dozen():
    state = layer("mha_core", prefix="a.") | {"a.q_norm.weight": torch.ones(3)}
    state |= layer("mha_core", prefix="b.") | {f"b.{i:02}": torch.ones(1) for i in range(13)}
    one, two = find_layers(state)

    assert one.notes == ("Beside it and not used: q_norm.weight",)
    assert two.notes[0].endswith("10, 11 and more")


def test_attention_over_another_sequence_is_said_to_be():
    notes = only(layer("out_proj", prefix="decoder.layers.0.encoder_attn.")).notes

    assert any("cross-attention" in note for note in notes)


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("k_proj.weight", r"a\.k_proj\.weight=None: is missing beside a\.q_proj\.weight"),
        ("out_proj.weight", r"out_proj\.weight=None: is missing.*no output projection.*c_proj"),
    ],
)
def test_a_layer_with_a_matrix_missing_is_refused(lost, says):
    state = layer("out_proj", prefix="a.")
    del state[f"a.{lost}"]

    with pytest.raises(ConfigError, match=says):
        find_layers(state)


def test_a_tensor_belongs_to_one_layer_alone():
    """BERT's names end as those of a plain query, key, value layer do."""
    both = survey(layer("bert", prefix="encoder.layer.0.attention."))

    assert len(both.found) == 1
    assert both.refused == ()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.complex64, torch.float8_e4m3fn])
def test_other_types_of_number_are_refused(dtype):
    state = {name: tensor.to(dtype) for name, tensor in layer("torch").items()}

    with pytest.raises(ConfigError, match=r"is not a floating-point type.*float32, float64"):
        find_layers(state)


def test_a_mixture_of_types_is_refused():
    state = layer("torch")
    state["out_proj.bias"] = state["out_proj.bias"].half()

    with pytest.raises(ConfigError, match=r"out_proj\.bias='float16'.*in_proj_weight, float64"):
        find_layers(state)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_refused_with_its_tensor_and_index(number):
    state = layer("gpt2", prefix="h.0.attn.")
    state["h.0.attn.c_attn.weight"][4, 50] = number
    state["h.0.attn.c_attn.weight"][5, 1] = number

    with pytest.raises(
        ConfigError,
        match=rf"h\.0\.attn\.c_attn\.weight={number}: .*first of 2 .* at \(4, 50\)",
    ):
        build(state, only(state), heads=HEADS)


@pytest.mark.parametrize(
    ("heads", "nearest"), [(2, 1), (4, 3), (0, 1), (-3, 1), (100, 21), (3.0, 3), (True, 1)]
)
def test_heads_that_do_not_divide_are_refused_with_the_nearest_that_do(heads, nearest):
    state = layer("torch")

    with pytest.raises(ConfigError, match=f"divides the file's d_model={D_MODEL}") as refused:
        build(state, only(state), heads=heads)
    assert refused.value.field == "heads"
    assert refused.value.repairs[0] == {"heads": nearest}


@pytest.mark.parametrize(
    ("layout", "answers", "says"),
    [
        ("qkv", {}, "order=None: must be chosen"),
        ("qkv", {"order": "both"}, "order='both': is not one"),
        ("matrices", {}, "orientation=None: must be chosen"),
        ("torch", {"order": "interleaved"}, "order='interleaved': is not one"),
        ("bert", {"orientation": "conv1d"}, "orientation='conv1d': is not one"),
    ],
)
def test_a_question_without_its_answer_is_refused(layout, answers, says):
    with pytest.raises(ConfigError, match=says) as refused:
        read(layer(layout), **answers)
    assert refused.value.repairs


@pytest.mark.parametrize(
    "other",
    [{}, layer("torch", d_model=15), layer("torch", dtype="float32")],
    ids=["empty", "narrower", "other dtype"],
)
def test_a_layer_of_another_file_is_refused(other):
    found = only(layer("torch"))

    with pytest.raises(ConfigError, match="as it was found"):
        build(other, found, heads=HEADS)


def test_a_root_projection_of_another_layer_is_not_taken_for_this_ones():
    """ "attention.query" is also how a ViT names it, whose output would stand at the root."""
    root = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
    state = layer("query", prefix="attention.") | {"proj.weight": root}

    assert only(state).weights[-1] == "attention.dense.weight"


def test_names_as_long_as_a_file_may_hold_stay_short_in_a_refusal():
    state = {"9" * 5000 + "." * 5000 + str(i): torch.zeros(2) for i in range(100)}

    with pytest.raises(ConfigError, match="and 88 more") as refused:
        find_layers(state)
    assert len(str(refused.value)) < 3000
    with pytest.raises(ConfigError, match="must be") as refused:
        find_layers({"9" * 5000 + "." + name: t[:-1] for name, t in layer("torch").items()})
    assert len(str(refused.value)) < 300
