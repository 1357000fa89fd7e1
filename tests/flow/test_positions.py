"""Every element stands, at every scene, where torch itself puts it in index, value and memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, MHAConfig, flow, masks, trace_forward
from mha_core.flow import SCENES
from mha_core.window import Element, window
from tests.core.support import BATCH, D_K, D_MODEL, HEADS, TIME, config, randn
from tests.flow.support import followed, moved, runs, storage, whole

EDGES = {
    "odd sizes": config(),
    "one position": config(time=1),
    "one head": config(heads=1),
    "one column a head": config(heads=D_MODEL),
    "one batch item": config(batch=1),
    "one of everything": config(batch=1, time=1, d_model=1, heads=1),
    "all alike": config(batch=4, time=4, d_model=16, heads=4),
    "causal": config(causal=True),
    "dropout": config(dropout=0.4, causal=True),
    "bfloat16": config(dtype="bfloat16"),
    "float16": config(dtype="float16", heads=7),
}
every_edge = pytest.mark.parametrize("made", EDGES.values(), ids=EDGES)
MAPS = {"scores", "mask", "softmax"}
ONCE = ("project_q", "split_q", "transpose_q")  # one and the same q
AFTER = ("weighted_values", "transpose_back", "merge")  # one and the same output of the heads


def scenes(made, element=None, win=None, **given_):
    element = element or Element(0, 0, 0)
    trace = trace_forward(made, profile=False, **given_)
    return trace, {s.step.id: s for s in flow.scenes(trace, element, win or whole(made))}


def check_places(made, trace, found):
    """Index, value and memory of all cells of all scenes, against plain torch."""
    places = moved(made)
    for step, scene in found.items():
        cells, tensor = scene.cells, trace.tensor(step)
        assert cells.shape == tuple(tensor.shape)
        there = tuple(torch.from_numpy(cells.index).T)
        if step in MAPS:
            places[step] = torch.arange(tensor.numel()).view(tensor.shape)
        assert cells.identity.tolist() == places[step][there].tolist()
        values = tensor[there].float().numpy()
        np.testing.assert_array_equal(cells.values, values)
        in_memory = storage(tensor)[torch.from_numpy(cells.offset)]
        np.testing.assert_array_equal(in_memory.float().numpy(), values)


@given(runs())
def test_every_element_stands_where_torch_puts_it(run):
    made, element = run
    trace, found = scenes(made, element)
    check_places(made, trace, found)
    every = list(range(made.batch * made.time * made.d_model))
    for step, scene in found.items():
        if step not in MAPS:
            assert scene.cells.identity.tolist() == every


@every_edge
def test_every_element_stands_where_torch_puts_it_at_the_edges(made):
    trace, found = scenes(made)
    check_places(made, trace, found)


@every_edge
def test_an_element_keeps_its_number_where_it_only_moves(made):
    _, found = scenes(made)
    for steps in (ONCE, AFTER):
        first = found[steps[0]].cells
        for step in steps[1:]:
            np.testing.assert_array_equal(found[step].cells.values, first.values)
            np.testing.assert_array_equal(found[step].cells.identity, first.identity)


@every_edge
def test_q_stays_where_it_is_in_memory_and_merge_alone_moves_the_heads_output(made):
    _, found = scenes(made)
    offsets = {step: scene.cells.offset.tolist() for step, scene in found.items()}
    assert offsets["project_q"] == offsets["split_q"] == offsets["transpose_q"]
    assert offsets["weighted_values"] == offsets["transpose_back"]
    # Merged, the elements lie in the order of (batch, time, d_model).
    assert offsets["merge"] == found["merge"].cells.identity.tolist()
    needs_a_copy = made.heads > 1 and made.time > 1
    assert (offsets["merge"] != offsets["transpose_back"]) == needs_a_copy
    assert found["merge"].moves
    assert (found["merge"].step.view_of is None) == needs_a_copy


def test_an_input_that_is_a_slice_lies_where_its_own_strides_say():
    wide = randn(BATCH, TIME * 2 + 1, D_MODEL)
    x = wide[:, 1::2]
    trace, found = scenes(config(), x=x)
    check_places(config(), trace, found)
    b, t, c = 1, 2, 4
    cells = found["input"].cells
    at = (b * TIME + t) * D_MODEL + c
    assert cells.offset[at] == (b * (TIME * 2 + 1) + 1 + 2 * t) * D_MODEL + c
    assert cells.values[at] == x[b, t, c].float()


@given(runs())
def test_the_followed_element_is_found_by_the_arithmetic_of_its_head(run):
    made, element = run
    b, t, c = element.b, element.t, element.c
    head, j = c // made.d_k, c % made.d_k
    trace, found = scenes(made, element)
    flat, by_time, by_head, row = (b, t, c), (b, t, head, j), (b, head, t, j), (b, head, t, 0)
    expected = {
        "input": flat, "project_q": flat, "split_q": by_time, "transpose_q": by_head,
        "scores": row, "mask": row, "softmax": row, "weighted_values": by_head,
        "transpose_back": by_time, "merge": flat, "output": flat,
    }  # fmt: skip
    for step, scene in found.items():
        assert scene.place == expected[step]
        tensor = trace.tensor(step)
        label, value = scene.result
        assert label.endswith(f"[{', '.join(map(str, scene.place))}]")
        assert value == float(tensor[scene.place])
        np.testing.assert_equal(float(storage(tensor)[scene.offset]), value)


@given(runs())
def test_from_head_and_column_one_comes_back_to_the_element(run):
    made, element = run
    _, found = scenes(made, element)
    for step in ("split_q", "transpose_q", "weighted_values", "transpose_back"):
        number = moved(made)[step][found[step].place]
        back = np.unravel_index(int(number), (made.batch, made.time, made.d_model))
        assert tuple(map(int, back)) == (element.b, element.t, element.c)


@every_edge
def test_the_scenes_come_in_order_and_the_mask_only_where_one_was_set(made):
    _, found = scenes(made)
    assert list(found) == [step for step in SCENES if step != "mask" or made.causal]
    assert [step for step, scene in found.items() if scene.moves] == [
        "split_q", "transpose_q", "transpose_back", "merge",
    ]  # fmt: skip
    assert {scene.d_k for scene in found.values()} == {made.d_k}


def test_cells_are_hidden_where_their_key_may_not_be_attended():
    padded = masks.padding([TIME, 2], TIME)
    for causal in (True, False):
        _, found = scenes(config(causal=causal), mask=padded)
        for step, scene in found.items():
            index = scene.cells.index
            if step not in MAPS:
                assert not scene.hidden.any()
                continue
            b, _, query, key = index.T
            gone = (b == 1) & (key >= 2)
            np.testing.assert_array_equal(scene.hidden, gone | (causal & (key > query)))
    _, found = scenes(config())
    assert not found["softmax"].hidden.any()


def test_bytes_copied_are_those_that_the_dispatcher_counted():
    trace = trace_forward(config())
    for scene in flow.scenes(trace, Element(0, 0, 0), whole(config())):
        assert scene.copied == trace[scene.step.id].copied
    assert trace["merge"].copied == BATCH * TIME * D_MODEL * 8


@pytest.mark.parametrize(
    ("element", "says", "repair"),
    [
        (Element(BATCH, 0, 0), "b=2: must be from 0 to 1", {"b": BATCH - 1}),
        (Element(0, TIME, 0), "t=5: must be from 0 to 4", {"t": TIME - 1}),
        (Element(0, 0, D_MODEL), "c=21: must be from 0 to 20", {"c": D_MODEL - 1}),
        (Element(-1, 0, 0), "b=-1: must be from 0 to 1", {"b": 0}),
        (Element(0, -1, 0), "t=-1: must be from 0 to 4", {"t": 0}),
        (Element(0, 0, -3), "c=-3: must be from 0 to 20", {"c": 0}),
    ],
)
def test_an_element_outside_is_refused_with_the_nearest_inside(element, says, repair):
    trace = trace_forward(config(), profile=False)
    with pytest.raises(ConfigError, match=says) as caught:
        flow.scenes(trace, element, whole(config()))
    assert caught.value.repairs == (repair,)


def test_a_tensor_that_was_not_kept_is_refused_by_name():
    trace = trace_forward(config(), keep=["input", "project_q"], profile=False)
    with pytest.raises(ConfigError, match="step='split_q': ran, but its tensor was not kept"):
        flow.scenes(trace, Element(0, 0, 0), whole(config()))


LARGE = MHAConfig(batch=3, time=37, d_model=11 * 13, heads=11, causal=True)


@given(followed(LARGE), st.sampled_from([120, 480, 2000]))
def test_through_a_window_each_element_still_stands_where_torch_puts_it(element, marks):
    win = window(LARGE, element, marks=marks)
    trace, found = scenes(LARGE, element, win)
    check_places(LARGE, trace, found)
    moving = [scene.cells.identity.tolist() for step, scene in found.items() if step not in MAPS]
    assert all(identity == moving[0] for identity in moving)
    wanted = (element.b * LARGE.time + element.t) * LARGE.d_model + element.c
    assert moving[0].count(wanted) == 1
    for scene in found.values():
        assert list(scene.place) in scene.cells.index.tolist()


def test_the_sizes_of_these_tests_differ_pairwise():
    assert len({BATCH, HEADS, TIME, D_K, D_MODEL}) == 5
