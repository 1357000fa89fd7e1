"""The known traps of files of weights, by number; 44, 45 and 87 are with torch's module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mha_core import ConfigError
from mha_core.layouts import build, find_layers, read_state, survey
from tests.core.support import close, randn
from tests.layouts.support import layer, only, read, run, same, through_a_file


def shaped(**shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Zeros of these shapes; "__" stands for a dot."""
    return {name.replace("__", "."): torch.zeros(shape) for name, shape in shapes.items()}


# 16 rows: (h + 2 kv) d_k of h=4, kv=2, d_k=2.
@pytest.mark.parametrize("name", ["qkv__weight", "c_attn__weight", "query_key_value__weight"])
def test_case_42_one_matrix_of_grouped_queries_is_refused_by_name(name):
    state = shaped(**{name: (16, 8), "dense__weight": (8, 8)})

    with pytest.raises(
        ConfigError, match=r"=\(16, 8\): is grouped-query .*8 rows of queries, 4 .*\(24, 8\)"
    ):
        find_layers(state)


def test_case_42_separate_grouped_queries_are_refused_by_name():
    state = shaped(
        q_proj__weight=(8, 8), k_proj__weight=(4, 8), v_proj__weight=(4, 8), o_proj__weight=(8, 8)
    )

    with pytest.raises(ConfigError, match=r"k_proj.weight=\(4, 8\): is grouped-query .*\(8, 8\)"):
        find_layers(state)


def test_case_43_the_same_row_order_in_query_and_key_changes_nothing_and_no_rotation_is_said():
    state = {name: randn(8, 8, seed=i) for i, name in enumerate(layer("o_proj", bias=False))}
    rows = torch.tensor([0, 2, 1, 3, 4, 6, 5, 7])
    both = dict(state)
    for name in ("q_proj.weight", "k_proj.weight"):
        both[name] = state[name][rows]
    one = state | {"q_proj.weight": both["q_proj.weight"]}
    x = randn(3, 5, 8, seed=9)

    weights = run(read(state, heads=2), x)[1]

    assert any("RoPE" in note and "neither is applied" in note for note in only(state).notes)
    assert close(run(read(both, heads=2), x)[1], weights)
    assert not close(run(read(one, heads=2), x)[1], weights, 0.1)


@pytest.mark.parametrize(
    "wrappers", [(), ("state_dict",), ("model",), ("model_state_dict",), ("model", "state_dict")]
)
def test_case_46_a_long_prefix_and_a_nested_dictionary_are_found(wrappers, tmp_path):
    prefix = "module._orig_mod.h.0.attn."
    nested = layer("gpt2", prefix=prefix)
    expected = build(nested, only(nested), heads=3)
    for wrapper in reversed(wrappers):
        nested = {wrapper: nested, "epoch": 3, "loss": torch.ones(())}
    torch.save(nested, tmp_path / "model.pt")

    state = read_state((tmp_path / "model.pt").read_bytes(), "model.pt")
    found = only(state)

    assert found.prefix == prefix
    assert same(build(state, found, heads=3), expected)


def test_case_46_without_a_layer_what_was_found_and_expected_is_listed():
    state = {f"fc.{i}.weight": torch.zeros(3, 8) for i in range(14)}

    with pytest.raises(
        ConfigError,
        match=r"fc\.0\.weight \(3, 8\), .*fc\.11\.weight \(3, 8\) and 2 more.*"
        r"in_proj_weight \(3 d_model, d_model\).*c_attn\.weight \(d_model, 3 d_model\)",
    ) as refused:
        find_layers(state)
    assert "fc.12" not in str(refused.value)


def test_case_47_without_a_key_matrix_the_maps_are_even_and_only_the_query_bias_moves_them():
    names = ("attention.self.query", "attention.self.key", "attention.self.value")
    names = (*names, "attention.output.dense")
    state = {f"{name}.weight": randn(8, 8, seed=i) for i, name in enumerate(names)}
    state |= {f"{name}.bias": randn(8, seed=10 + i) for i, name in enumerate(names)}
    state["attention.output.LayerNorm.weight"] = torch.ones(8, dtype=torch.float64)
    x = randn(3, 5, 8, seed=20)

    def weights(**changes: torch.Tensor) -> torch.Tensor:
        named = {name.replace("__", "."): tensor for name, tensor in changes.items()}
        return run(read(state | named, heads=4), x)[1]

    no_key = weights(attention__self__key__weight=torch.zeros(8, 8, dtype=torch.float64))
    no_key_bias = weights(attention__self__key__bias=torch.zeros(8, dtype=torch.float64))
    no_query_bias = weights(attention__self__query__bias=torch.zeros(8, dtype=torch.float64))

    found = only(state)
    assert found.weights[-1] == "attention.output.dense.weight"
    assert found.notes == ("Beside it and not used: output.LayerNorm.weight",)
    assert close(no_key, torch.full_like(no_key, 1 / 5))
    assert close(no_key_bias, weights())
    assert not close(no_query_bias, weights(), 0.005)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (
            shaped(in_proj_weight=(23, 8), out_proj__weight=(8, 8)),
            r"in_proj_weight=\(23, 8\): must be \(24, 8\)",
        ),
        (  # as many rows as grouped queries have, which torch's module never has
            shaped(in_proj_weight=(16, 8), out_proj__weight=(8, 8)),
            r"in_proj_weight=\(16, 8\): must be \(24, 8\)",
        ),
        (
            shaped(c_attn__weight=(768, 2303), c_proj__weight=(768, 768)),
            r"c_attn.weight=\(768, 2303\): must be \(768, 2304\)",
        ),
        (
            shaped(c_attn__weight=(2303, 768), c_proj__weight=(768, 768)),
            r"c_attn.weight=\(2303, 768\): must be \(2304, 768\)",
        ),
        (  # GPT-2's attention over another sequence: keys and values alone, and no grouped queries
            shaped(c_attn__weight=(8, 16), q_attn__weight=(8, 8), c_proj__weight=(8, 8)),
            r"c_attn.weight=\(8, 16\): must be \(8, 24\)",
        ),
        (  # stored the other way round: W_o tells the width
            shaped(qkv__weight=(8, 24), proj__weight=(8, 8)),
            r"qkv.weight=\(8, 24\): must be \(24, 8\)",
        ),
        (
            shaped(W_q__weight=(9, 8), W_k__weight=(8, 8), W_v__weight=(8, 8), W_o__weight=(8, 8)),
            r"W_q.weight=\(9, 8\): must be \(8, 8\)",
        ),
        (
            shaped(W_q__weight=(8, 8), W_k__weight=(8, 8), W_v__weight=(5, 8), W_o__weight=(8, 8)),
            r"W_v.weight=\(5, 8\): must be \(8, 8\)",
        ),
        (
            shaped(in_proj_weight=(24, 8), out_proj__weight=(8, 7)),
            r"out_proj.weight=\(8, 7\): must be \(8, 8\)",
        ),
        (
            shaped(in_proj_weight=(24, 8), in_proj_bias=(8,), out_proj__weight=(8, 8)),
            r"in_proj_bias=\(8,\): must be \(24,\)",
        ),
        (
            shaped(in_proj_weight=(24, 8), out_proj__weight=(8, 8), out_proj__bias=(24,)),
            r"out_proj.bias=\(24,\): must be \(8,\)",
        ),
        (
            shaped(qkv__weight=(24, 8, 1, 1), proj__weight=(8, 8, 1, 1)),
            r"qkv.weight=\(24, 8, 1, 1\): must have 2 axes",
        ),
        (
            shaped(in_proj_weight=(0, 0), out_proj__weight=(0, 0)),
            r"in_proj_weight=\(0, 0\): .* at least 1 each",
        ),
    ],
)
def test_case_48_other_shapes_are_refused_with_both(state, says):
    with pytest.raises(ConfigError, match=says):
        find_layers(through_a_file(state))


def test_case_48_one_wrong_layer_hides_neither_the_others_nor_itself():
    good = nn.MultiheadAttention(8, 2).state_dict()
    state = {f"{i}.{name}": tensor for i in range(3) for name, tensor in good.items()}
    state["1.in_proj_weight"] = torch.zeros(23, 8)

    both = survey(state)

    assert [layer.prefix for layer in both.found] == ["0.", "2."]
    assert [error.field for error in both.refused] == ["1.in_proj_weight"]
