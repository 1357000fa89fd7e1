"""Flat, separate and fused: the same numbers, as many parameters, and the kernels counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch import nn

from mha_core import ConfigError
from mha_core.inputs import build_module, random_input
from mha_core.projection_times import (
    check_budget,
    export_frame,
    head_counts,
    ratio_chart,
    sentences,
    time_over_heads,
)
from mha_core.projections import (
    LABELS,
    FusedProjection,
    SeparateProjections,
    compare,
    linears,
    one_head,
    rows_compared,
    summary,
)
from tests.core.support import Listing, config, configs, torch_twin

VIEWS = {
    "aten.t",
    "aten.view",
    "aten.transpose",
    "aten.permute",
    "aten.unbind",
    "aten._unsafe_view",
}
VIEWS |= {"aten.expand", "aten.as_strided", "aten.select", "aten.unsqueeze", "aten.split"}
VIEWS |= {"aten.detach", "aten.chunk", "aten._reshape_alias"}


def made(**changes):
    module = build_module(config(**changes))
    return module, random_input(config(**changes))


def by_name(facts):
    return {one.name: one for one in facts}


@given(configs(dtype="float64"))
def test_all_ways_give_the_same_numbers_in_float64(one):
    facts = compare(build_module(one), random_input(one))
    assert [fact.name for fact in facts] == list(LABELS)
    assert all(fact.exact < 1e-12 and fact.difference < 1e-12 for fact in facts)


@given(configs())
def test_parameters_are_as_many_and_their_tensors_h_times_as_many(one):
    facts = by_name(compare(build_module(one), random_input(one)))
    each = 2 if one.bias else 1
    count = 3 * one.d_model**2 + (3 * one.d_model if one.bias else 0)
    assert {fact.parameters for fact in facts.values()} == {count}
    assert facts["flat"].tensors == 3 * each
    assert facts["separate"].tensors == facts["apart"].tensors == one.heads * 3 * each
    assert facts["fused"].tensors == each
    assert facts["separate"].shape == (one.d_k, one.d_model)  # nn.Linear: (out, in)


def test_a_difference_would_show():
    module, x = made()
    separate = SeparateProjections(linears(module), module.heads)
    with torch.no_grad():
        separate.k[1].weight[0, 0] += 1e-6
        wrong, right = separate(x)[1], SeparateProjections(linears(module), module.heads)(x)[1]
    assert float((wrong - right).abs().max()) > 1e-8


def test_columns_of_w_are_rows_of_the_weight():
    module, x = made(bias=False)
    with torch.no_grad():
        q = module.W_q(x)
        for head in range(module.heads):
            own = slice(head * module.d_k, (head + 1) * module.d_k)
            w = module.W_q.weight.T[:, own]  # (d_model, d_k): columns of W in x @ W
            assert torch.allclose(x @ w, q[..., own], atol=1e-12)
            assert torch.equal(w.T, module.W_q.weight[own])


def test_one_head_is_its_columns_and_one_block_of_memory():
    module, x = made()
    for head in range(module.heads):
        one = one_head(module, x, head)
        assert (one.start, one.stop) == (7 * head, 7 * head + 7)
        assert one.offset == 7 * head * 21
        assert float((one.alone - one.flat).abs().max()) < 1e-12
        expected = x[0, 0] @ module.W_q.weight[one.start : one.stop].T
        expected = expected + module.W_q.bias[one.start : one.stop]
        assert torch.allclose(one.alone, expected.detach(), atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_kernels_are_the_operators_that_are_no_views(bias):
    module, x = made(bias=bias)
    facts = by_name(compare(module, x))
    modules = {
        "separate": SeparateProjections(linears(module), module.heads),
        "fused": FusedProjection(linears(module), module.heads),
    }
    for name, projection in modules.items():
        with Listing() as listing, torch.no_grad():
            projection(x)
        launched = [one for one in listing.names if one not in VIEWS]
        assert facts[name].kernels == len(launched), listing.names
    product = "addmm" if bias else "mm"
    assert facts["flat"].operators == {product: 3}
    assert facts["separate"].operators == {product: 3 * module.heads, "stack": 3}
    assert facts["apart"].operators == {product: 3 * module.heads}
    assert facts["fused"].operators == {product: 1}


def test_the_fused_matrix_is_torchs_own():
    module, _ = made()
    fused = FusedProjection(linears(module), module.heads)
    twin = torch_twin(module)
    assert torch.equal(fused.W_qkv.weight, twin.in_proj_weight)
    assert torch.equal(fused.W_qkv.bias, twin.in_proj_bias)


def test_they_share_no_memory_with_the_module():
    module, _ = made()
    theirs = {p.untyped_storage().data_ptr() for p in module.parameters()}
    for name in (SeparateProjections, FusedProjection):
        made_of = name(linears(module), module.heads)
        assert not theirs & {p.untyped_storage().data_ptr() for p in made_of.parameters()}


def test_many_positions_are_compared_in_part():
    x = torch.empty(64, 2048, 2048, device="meta")
    assert rows_compared(x) == 2**29 // (6 * 2048**2)
    assert rows_compared(torch.empty(2, 6, 32)) == 12


def test_the_summary_says_the_counts():
    module, x = made()
    said = summary(compare(module, x), module.heads)
    assert "1,386 numbers whichever way" in said  # 3·21² and 3·21
    assert "18 parameter tensors instead of 6, 3 times as many" in said
    assert "12 kernels instead of 3; the fused matrix launches 1" in said


@pytest.mark.parametrize(
    ("difference", "exact", "words"),
    [
        (0.0, 0.0, "q, k and v are equal bit for bit, in float64 too."),
        (1e-7, 0.0, "q, k and v differ by at most 1e-07, in float64 by 0."),
        (1e-7, 2e-16, "q, k and v differ by at most 1e-07, in float64 by 2e-16."),
    ],
)
def test_the_summary_says_how_far_they_are_apart(difference, exact, words):
    facts = [replace(one, difference=difference, exact=exact) for one in compare(*made())]
    assert words in summary(facts, 3)


@pytest.mark.parametrize(
    ("d_model", "heads", "expected"),
    [
        (32, 4, [1, 2, 4, 8, 16, 32]),
        (21, 3, [1, 3, 7, 21]),
        (13, 13, [1, 13]),
        (1, 1, [1]),
        (512, 64, [1, 2, 4, 8, 16, 32, 64]),
    ],
)
def test_head_counts_divide_and_about_double(d_model, heads, expected):
    assert head_counts(d_model, heads) == expected


@given(configs())
def test_head_counts_have_the_run_in_view(one):
    counts = head_counts(one.d_model, one.heads)
    assert one.heads in counts
    assert counts == sorted(set(counts))
    assert len(counts) <= 9
    assert all(one.d_model % count == 0 for count in counts)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ConfigError, match="multiple of heads=3"):
        head_counts(10, 3)


def test_times_come_one_number_of_heads_at_a_time():
    module, x = made()
    told = []
    timings = list(
        time_over_heads(
            module, x, [1, 3], allowed=0.0, report=lambda share, what: told.append((share, what))
        )
    )
    assert [one.heads for one in timings] == [1, 3]
    assert {what for _, what in told} == {"h = 1", "h = 3"}
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    for one in timings:
        assert set(one.seconds) == set(LABELS)
        assert one.ratio["flat"].median == one.ratio["flat"].low == one.ratio["flat"].high == 1.0
        assert one.seconds["flat"].count == 5
        assert one.seconds["flat"].median > 0
    assert timings[1].kernels == {"flat": 3, "separate": 12, "apart": 9, "fused": 1}
    table = export_frame([], timings, "cpu")
    assert list(table["heads"]) == [1] * 4 + [3] * 4
    assert list(table["projection"][:4]) == list(LABELS.values())
    assert (table["lower quartile ratio"] <= table["median ratio"]).all()
    chart = ratio_chart(timings, 3, [1, 3])
    assert [series.x for series in chart.series] == [(1.0, 3.0)] * 4
    said = sentences(timings[1])
    assert said[0].startswith("At h = 3, one flat matrix each took")
    assert len(said) == 4


def test_a_report_ends_the_times():
    def report(_share, what):
        if what == "h = 3":
            raise InterruptedError

    module, x = made()
    taken = []
    with pytest.raises(InterruptedError):
        taken.extend(time_over_heads(module, x, [1, 3], allowed=0.0, report=report))
    runs = time_over_heads(module, x, [1, 3], allowed=0.0, report=report)
    assert next(runs).heads == 1  # what came before it stands


def test_before_a_measurement_the_file_has_the_facts():
    module, x = made()
    table = export_frame(compare(module, x), [], "cpu")
    assert list(table["kernels"]) == [3, 12, 9, 1]
    chart = ratio_chart([], 3, [1, 3])
    assert chart.reach == (1.0, 3.0)
    assert not any(series.x for series in chart.series)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.1, 1.3, "slower"), (0.7, 0.9, "faster"), (0.9, 1.1, "the same"), (1.0, 1.2, "the same")],
)
def test_the_verdict_is_by_the_middle_half(low, high, verdict):
    from mha_core.measure import Sample
    from mha_core.projection_times import Timing

    one = Sample((low + high) / 2, low, high, 9)
    timing = Timing(2, {}, {"fused": one}, {})
    assert timing.verdict("fused") == verdict


def test_more_than_the_memory_holds_is_refused():
    module, x = made()
    check_budget(module, x, limit=10**9)
    with pytest.raises(
        ConfigError, match=r"d_model=21: measuring needs about .* over the limit of 1\.0 KiB"
    ):
        check_budget(module, x, limit=1024)


def test_linear_layers_without_bias_have_none():
    module, _ = made(bias=False)
    assert all(
        layer.bias is None
        for layer in FusedProjection(linears(module), 3).modules()
        if isinstance(layer, nn.Linear)
    )
