"""Every mistake runs and does harm, torch itself agrees with its repair, and its check tells."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core.mistakes import GROUPS, MISTAKES, examine
from mha_core.mistakes.parts import close
from mha_core.steps import STEPS
from tests.mistakes.support import HALF, LOUD, SILENT, bench, far, multihead, run, sdpa

every = pytest.mark.parametrize("name", MISTAKES)

ASKED_FOR = {
    "view_transposed", "indivisible", "mask_shape", "mask_dtype", "heads_from_time",
    "merge_untransposed", "softmax_axis", "no_scale", "scale_d_model", "mask_after_softmax",
    "polarity", "causal_leak", "causal_blind", "fill_added", "fill_overflow", "dead_rows",
    "dropout_left_on", "averaged", "interleaved",
}  # fmt: skip


def test_all_that_were_asked_for_are_there():
    assert set(MISTAKES) >= ASKED_FOR
    assert len(MISTAKES) == sum(len(group) for group in GROUPS.values())


@every
def test_the_words_are_whole(name):
    mistake = MISTAKES[name]
    assert mistake.id == name
    assert mistake.step in STEPS
    for words in (mistake.title, mistake.why, mistake.sign, mistake.fix):
        assert words.strip()
    assert "\n" not in mistake.fix
    assert mistake.seen_in
    for place in mistake.seen_in:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", place)


@every
def test_the_fix_is_a_line_of_python(name):
    compile(MISTAKES[name].fix, name, "exec")


@every
def test_the_source_shown_is_the_code_that_runs(name):
    # Compiled anew from what is shown, each function gives the same numbers, or the same error.
    module, x = bench()
    for which in ("wrong", "right"):
        function = getattr(MISTAKES[name], which)
        scope = dict(function.__globals__)
        exec(MISTAKES[name].code(which), scope)
        results = []
        for made in (function, scope[function.__name__]):
            torch.manual_seed(0)
            try:
                results.append(made(module, x))
            except RuntimeError as error:
                results.append(str(error))
        if isinstance(results[0], str):
            assert results[0] == results[1]
        else:
            for one, other in zip(*results, strict=True):
                assert torch.equal(one.nan_to_num(-1.0), other.nan_to_num(-1.0))


@every
def test_the_right_code_gives_what_torch_gives(name):
    module, x = bench()
    mistake = MISTAKES[name]
    keep = None if mistake.mask is None else mistake.mask(x)
    output, weights = run("right", name, module, x)
    rest = slice(None, -1) if name in ("fill_added", "dead_rows") else slice(None)
    # Where an item is all padding, torch's own module has NaN: the others are compared.
    tolerance = 2e-3 if name in HALF else 1e-12
    for oracle in (sdpa, multihead):
        their_output, their_weights = oracle(module, x, keep)
        if name == "averaged":
            their_weights = their_weights[0, 0]
        else:
            assert far(weights[rest], their_weights[rest]) <= tolerance
        assert far(output[rest], their_output[rest]) <= tolerance
    if name == "averaged":
        assert far(weights, their_weights) <= tolerance


@every
def test_the_wrong_code_does_harm_and_the_check_tells(name):
    module, x = bench()
    found = examine(MISTAKES[name], module, x)
    assert found.caught
    assert found.passed
    assert not found.right.error
    assert found.right.not_finite == 0
    if name in LOUD:
        assert found.betrayed == "error"
        assert found.wrong.error.startswith("RuntimeError: ")
    elif name == "batch_second":
        assert found.betrayed == "shape"
    else:
        assert found.betrayed == "nothing"
        assert found.wrong.shapes == found.right.shapes
        harmed = max(found.change or 0.0, found.weight_change or 0.0)
        assert harmed > 0.01 or found.wrong.not_finite > 0


def test_shapes_alone_reveal_few():
    module, x = bench()
    betrayed = [examine(mistake, module, x).betrayed for mistake in MISTAKES.values()]
    assert betrayed.count("shape") == 1
    assert betrayed.count("error") == len(LOUD)
    assert betrayed.count("nothing") == len(SILENT) - 1


sizes = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 4),
        "time": st.integers(1, 6),
        "heads": st.integers(1, 4),
        "d_k": st.integers(1, 5),
        "seed": st.integers(0, 2**20),
    }
)


@every
@settings(max_examples=12, deadline=None)
@given(size=sizes)
def test_the_check_holds_on_the_right_code_and_tells_harm_from_none_at_any_size(name, size):
    d_model = size["heads"] * size["d_k"]
    module, x = bench(size["batch"], size["time"], d_model, size["heads"], size["seed"])
    found = examine(MISTAKES[name], module, x, seed=size["seed"])
    assert found.passed
    assert found.caught == (found.betrayed != "no change")


@every
def test_what_a_forward_draws_leaves_torchs_own_stream_as_it_was(name):
    module, x = bench()
    before = torch.get_rng_state()
    first, second = examine(MISTAKES[name], module, x), examine(MISTAKES[name], module, x)
    assert torch.equal(torch.get_rng_state(), before)
    if first.wrong.output is not None:
        one, other = first.wrong.output, second.wrong.output
        assert close(one.nan_to_num(0.0), other.nan_to_num(0.0))
