"""The vocabulary agrees with the standard walkthrough, and with itself."""

from __future__ import annotations

import re

import pytest

from mha_core.steps import MAP, MAP_STEPS, NINE, STEPS, map_name, symbolic

FLAT, BY_TIME, BY_HEAD, KEYS, MAPS = (
    "(batch, time, d_model)",
    "(batch, time, h, d_k)",
    "(batch, h, time, d_k)",
    "(batch, h, d_k, time)",
    "(batch, h, time, time)",
)
MERGE = "contiguous().view(batch, time, d_model)"
# number, ids, operation, inputs, output
WALKTHROUGH = [
    ("0", ["input"], "x", [], FLAT),
    ("1", ["project_q", "project_k", "project_v"], "W_{n}(x)", [FLAT], FLAT),
    ("2", ["split_q", "split_k", "split_v"], "view(batch, time, h, d_k)", [FLAT], BY_TIME),
    ("3", ["transpose_q", "transpose_k", "transpose_v"], "transpose(1, 2)", [BY_TIME], BY_HEAD),
    ("4", ["scores"], "Q @ Kᵀ", [BY_HEAD, KEYS], MAPS),
    ("4a", ["scale"], "/ √d_k", [MAPS], MAPS),
    ("4b", ["mask"], "mask", [MAPS], MAPS),
    ("5", ["softmax"], "softmax(-1)", [MAPS], MAPS),
    ("5a", ["dropout"], "dropout", [MAPS], MAPS),
    ("6", ["weighted_values"], "weights @ V", [MAPS, BY_HEAD], BY_HEAD),
    ("7", ["transpose_back"], "transpose(1, 2)", [BY_HEAD], BY_TIME),
    ("8", ["merge"], MERGE, [BY_TIME], FLAT),
    ("9", ["output"], "W_o(out)", [FLAT], FLAT),
]


@pytest.mark.parametrize(("number", "ids", "operation", "inputs", "output"), WALKTHROUGH)
def test_every_step_is_as_the_walkthrough_has_it(number, ids, operation, inputs, output):
    for step in ids:
        spec = STEPS[step]
        assert spec.id == step
        assert spec.number == number
        assert spec.operation == operation.format(n=step[-1])
        assert [symbolic(shape) for shape in spec.inputs] == inputs
        assert symbolic(spec.output) == output


def test_there_are_no_other_steps_and_they_come_in_order():
    assert list(STEPS) == [step for _, ids, *_ in WALKTHROUGH for step in ids]


def test_a_step_reads_only_earlier_steps_whose_output_is_its_input():
    earlier: list[str] = []
    for spec in STEPS.values():
        assert set(spec.reads) <= set(earlier)
        for read in spec.reads:
            output = STEPS[read].output
            transposed = (*output[:2], output[3], output[2]) if len(output) == 4 else output
            assert output in spec.inputs or transposed in spec.inputs
        earlier.append(spec.id)


def test_the_nine_rows_are_the_nine_numbers():
    assert [STEPS[step].number for step in NINE] == list("123456789")


def test_the_maps_are_the_steps_over_query_and_key():
    assert MAP_STEPS == ("scores", "scale", "mask", "softmax", "dropout")
    assert all(STEPS[step].output == MAP for step in MAP_STEPS)
    assert len({map_name(step) for step in MAP_STEPS}) == len(MAP_STEPS)


def test_every_step_has_code_and_one_sentence_to_take_away():
    for spec in STEPS.values():
        assert re.search(r"[\w)]", spec.code)
        assert "{" not in spec.code + spec.operation + spec.lesson
        assert spec.lesson.endswith(".")
        assert spec.lesson.count(". ") == 0
