"""The row and the column shown behind an element really make it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from mha_core import ConfigError, flow, masks, trace_forward
from mha_core.operands import operands_of
from mha_core.window import Element, Window
from tests.core.support import BATCH, D_K, D_MODEL, TIME, config, randn
from tests.flow.support import runs, whole

ELEMENT = Element(1, 3, 2 * D_K + 4)  # head 2, column 4
COMPUTED = ("project_q", "scores", "softmax", "weighted_values", "output")


def products(first, second):
    return float(np.asarray(first.values, np.float64) @ np.asarray(second.values, np.float64))


@given(runs())
def test_row_times_column_is_the_element(run):
    made, element = run
    trace = trace_forward(made, profile=False)
    for step in ("project_q", "scores", "weighted_values", "output"):
        (row, column), (_, value) = operands_of(trace, step, element, whole(made))
        bias = 0.0
        if made.bias and step in ("project_q", "output"):
            layer = trace.module.W_q if step == "project_q" else trace.module.W_o
            bias = float(layer.bias.detach()[element.c])
        assert products(row, column) + bias == pytest.approx(value, rel=2e-5, abs=2e-5)
        assert row.length == column.length == len(row.values)
        assert row.indices == column.indices == tuple(range(row.length))


@given(runs())
def test_softmax_of_the_first_row_is_the_second(run):
    made, element = run
    trace = trace_forward(made, profile=False)
    (before, after), (_, value) = operands_of(trace, "softmax", element, whole(made))
    spread = torch.from_numpy(before.values).double().softmax(-1)
    np.testing.assert_allclose(after.values, spread, atol=2e-6)
    assert value == pytest.approx(float(after.values[0]), abs=1e-6)


def test_the_values_are_those_of_the_tensors_named():
    made = config(causal=True)
    trace = trace_forward(made, profile=False)
    t = {step.id: step.tensor.float().numpy() for step in trace.steps}
    module = trace.module
    expected = {
        "project_q": {
            "x[1, 3, :]": t["input"][1, 3],
            "W_q[18, :]": module.W_q.weight[18].detach().float().numpy(),
        },
        "scores": {
            "q[1, 2, 3, :]": t["transpose_q"][1, 2, 3],
            "k[1, 2, 0, :]": t["transpose_k"][1, 2, 0],
        },
        "mask": {
            "scaled[1, 2, 3, :]": t["scale"][1, 2, 3],
            "masked[1, 2, 3, :]": t["mask"][1, 2, 3],
        },
        "softmax": {
            "masked[1, 2, 3, :]": t["mask"][1, 2, 3],
            "weights[1, 2, 3, :]": t["softmax"][1, 2, 3],
        },
        "weighted_values": {
            "weights[1, 2, 3, :]": t["softmax"][1, 2, 3],
            "v[1, 2, :, 4]": t["transpose_v"][1, 2, :, 4],
        },
        "output": {
            "out[1, 3, :]": t["merge"][1, 3],
            "W_o[18, :]": module.W_o.weight[18].detach().float().numpy(),
        },
    }
    results = {
        "project_q": ("q[1, 3, 18]", t["project_q"][1, 3, 18]),
        "scores": ("scores[1, 2, 3, 0]", t["scores"][1, 2, 3, 0]),
        "mask": ("masked[1, 2, 3, 0]", t["mask"][1, 2, 3, 0]),
        "softmax": ("weights[1, 2, 3, 0]", t["softmax"][1, 2, 3, 0]),
        "weighted_values": ("out[1, 2, 3, 4]", t["weighted_values"][1, 2, 3, 4]),
        "output": ("y[1, 3, 18]", t["output"][1, 3, 18]),
    }
    for step, rows in expected.items():
        found, (name, value) = operands_of(trace, step, ELEMENT, whole(made))
        assert [operand.label for operand in found] == list(rows)
        for operand, values in zip(found, rows.values(), strict=True):
            np.testing.assert_array_equal(operand.values, values)
        assert name == results[step][0]
        assert value == pytest.approx(float(results[step][1]), rel=1e-6)


def test_without_a_mask_softmax_reads_the_scaled_scores():
    trace = trace_forward(config(), profile=False)
    (before, _), _ = operands_of(trace, "softmax", ELEMENT, whole(config()))
    assert before.label == "scaled[1, 2, 3, :]"
    np.testing.assert_array_equal(before.values, trace.tensor("scale")[1, 2, 3].float())


def test_the_mask_writes_minus_infinity_where_a_key_is_hidden_and_nothing_elsewhere():
    made = config(causal=True)
    trace = trace_forward(made, mask=masks.padding([TIME, 3], TIME), profile=False)
    (before, after), _ = operands_of(trace, "mask", Element(1, 3, 0), whole(made))
    seen = np.arange(TIME) < 3
    assert np.isneginf(after.values[~seen]).all()
    np.testing.assert_array_equal(after.values[seen], before.values[seen])
    assert np.isfinite(before.values).all()


def test_a_row_that_sees_no_key_has_weights_of_zero():
    blind = torch.ones(TIME, TIME, dtype=torch.bool)
    blind[3] = False
    trace = trace_forward(config(), mask=blind, profile=False)
    (before, after), (_, value) = operands_of(trace, "softmax", ELEMENT, whole(config()))
    assert np.isneginf(before.values).all()
    assert after.values.tolist() == [0.0] * TIME
    assert value == 0.0
    (row, column), (_, value) = operands_of(trace, "weighted_values", ELEMENT, whole(config()))
    assert products(row, column) == value == 0.0


def test_after_dropout_the_dropped_weights_weigh_the_values():
    made = config(dropout=0.5)
    trace = trace_forward(made, profile=False)
    (row, column), (_, value) = operands_of(trace, "weighted_values", ELEMENT, whole(made))
    np.testing.assert_array_equal(row.values, trace.tensor("dropout")[1, 2, 3].float())
    assert (row.values == 0).any()
    assert products(row, column) == pytest.approx(value, abs=1e-6)


def test_a_window_leaves_out_values_and_keeps_the_true_length():
    win = Window(batch=(0, 1), time=(0, 4), heads=(0, 2), d_k=(0, 4, 6))
    trace = trace_forward(config(), profile=False)
    (row, column), _ = operands_of(trace, "scores", ELEMENT, win)
    assert row.indices == column.indices == (0, 4, 6)
    assert row.length == D_K
    np.testing.assert_array_equal(
        row.values, trace.tensor("transpose_q")[1, 2, 3].float()[[0, 4, 6]]
    )
    (row, _), _ = operands_of(trace, "weighted_values", ELEMENT, win)
    assert (row.indices, row.length) == ((0, 4), TIME)
    (row, column), _ = operands_of(trace, "project_q", ELEMENT, win)
    assert row.indices == (0, 4, 6, 14, 18, 20)
    assert row.length == column.length == D_MODEL
    np.testing.assert_array_equal(row.values, trace.x[1, 3].float()[list(row.indices)])


def test_rows_of_a_head_say_which_and_rows_of_all_heads_none():
    trace = trace_forward(config(causal=True), profile=False)
    for step in (*COMPUTED, "mask"):
        found, _ = operands_of(trace, step, ELEMENT, whole(config()))
        head = None if step in ("project_q", "output") else 2
        assert [operand.head for operand in found] == [head, head]
        axis = {"scores": "d_k"}.get(step, "d_model" if head is None else "time")
        assert [operand.axis for operand in found] == [axis, axis]


def test_the_scenes_carry_the_operands_of_every_step_that_computes():
    made = config(causal=True)
    trace = trace_forward(made, profile=False)
    for scene in flow.scenes(trace, ELEMENT, whole(made)):
        step = scene.step.id
        assert bool(scene.operands) == (step in (*COMPUTED, "mask"))
        if scene.operands:
            found, result = operands_of(trace, step, ELEMENT, whole(made))
            assert scene.result == result
            assert [a.label for a in scene.operands] == [b.label for b in found]


@pytest.mark.parametrize("step", ["input", "split_q", "transpose_q", "transpose_back", "merge"])
def test_a_step_that_computes_nothing_has_no_operands(step):
    trace = trace_forward(config(), profile=False)
    with pytest.raises(ConfigError, match=f"step='{step}': moves its numbers and computes none"):
        operands_of(trace, step, ELEMENT, whole(config()))


def test_another_scale_and_weights_of_ones_own_are_what_is_shown():
    made = config(scale=0.3, bias=False)
    trace = trace_forward(made, x=randn(BATCH, TIME, D_MODEL, seed=8), profile=False)
    (row, column), (_, value) = operands_of(trace, "scores", ELEMENT, whole(made))
    assert products(row, column) == pytest.approx(value, rel=1e-5)
    (before, after), _ = operands_of(trace, "softmax", ELEMENT, whole(made))
    assert before.values[0] == pytest.approx(0.3 * value, rel=1e-5)
    assert after.values.sum() == pytest.approx(1.0, abs=1e-6)
