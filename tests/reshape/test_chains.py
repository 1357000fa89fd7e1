"""Chains of steps: accepted where torch accepts, the same shape, strides, elements and copies."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core.reshape import ReshapeError, plan_chain, run, torch_chain
from mha_core.reshape.limits import MAX_AXES, MAX_NUMEL
from mha_core.reshape.run import tensors
from tests.reshape.strategies import Step, refusal, shapes, steps


def typed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def by_torch(step: Step, x: torch.Tensor) -> torch.Tensor | None:
    """torch's own answer; None where it raises."""
    try:
        return step.by_torch(x)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None


@settings(max_examples=300)
@given(st.data(), shapes())
def test_each_step_does_what_torch_does_and_is_refused_with_it(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    x = torch.arange(math.prod(shape), dtype=torch.int32).view(shape)
    chain: list[str] = []
    y = x
    for _ in range(data.draw(st.integers(1, 5))):
        step = data.draw(steps(tuple(y.shape)))
        expected = by_torch(step, y)
        chain.append(step.text)
        text = ".".join(chain)
        if expected is None or expected.numel() == 0:
            with pytest.raises(ReshapeError, match="character") as caught:
                plan_chain(text, typed(shape))
            assert caught.value.start >= len(text) - len(step.text)  # in the step at fault
            return
        if expected.dim() > MAX_AXES:
            with pytest.raises(ReshapeError, match="at most 6 are drawn"):
                plan_chain(text, typed(shape))
            return
        *_, before, after = tensors(plan_chain(text, typed(shape)))
        assert after.shape == expected.shape
        assert after.stride() == expected.stride()
        assert torch.equal(after, expected)
        copied = expected.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()
        assert (after.untyped_storage().data_ptr() != before.untyped_storage().data_ptr()) == copied
        y = expected


@settings(max_examples=100)
@given(st.data(), shapes())
def test_a_run_says_what_torch_has_and_einops_agrees(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    x = torch.arange(math.prod(shape), dtype=torch.int32).view(shape)
    chain: list[str] = []
    held = [x]
    for _ in range(data.draw(st.integers(0, 4))):
        step = data.draw(steps(tuple(held[-1].shape)))
        made = by_torch(step, held[-1])
        if made is None or made.numel() == 0 or made.dim() > MAX_AXES:
            break
        chain.append(step.text)
        held.append(made)
    done = run(plan_chain(".".join(chain), typed(shape)))
    for step, y, before in zip(done.steps, held, [None, *held], strict=False):
        assert (step.shape, step.strides) == (tuple(y.shape), y.stride())
        assert step.contiguous == y.is_contiguous()
        assert step.nbytes == y.numel() * 4
        if before is not None:
            moved = y.untyped_storage().data_ptr() != before.untyped_storage().data_ptr()
            assert step.storage == ("copy" if moved else "view")
            assert step.allocated == (y.untyped_storage().nbytes() if moved else 0)
    if done.einops is None:
        assert done.plan.parts.since > 0
        assert done.agrees is None
    else:
        # repeat of once and repeat_interleave copy where einops need not.
        always = any("repeat" in text for text in chain) or "contiguous" in ".".join(chain)
        assert done.agrees or (always and same_elements(done.einops, x, held[-1]))
    again = run(plan_chain(torch_chain(done), typed(shape)))
    assert [s.shape for s in again.steps] == [s.shape for s in done.steps]


def same_elements(call: Any, x: torch.Tensor, y: torch.Tensor) -> bool:
    import einops

    return torch.equal(getattr(einops, call.function)(x, call.pattern, **dict(call.sizes)), y)


@given(st.text(max_size=80), st.text(max_size=20))
def test_whatever_is_typed_is_run_or_refused_with_its_place(chain: str, axes: str) -> None:
    error = refusal(lambda: plan_chain(chain, "2, 6, 4", axes))
    if error is not None:
        assert error.text == {"chain": chain, "axes": axes}[error.field]
        assert 0 <= error.start <= error.end <= len(error.text)


WORDS = [
    "view", "(", ")", ",", ".", "2", "6", "4", "-1", "*", "//", "x", "h", "=", "[", "]",
    "transpose", "permute", "squeeze", "dim", "reshape(2,",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_so_is_any_jumble_of_its_own_words(words: list[str]) -> None:
    error = refusal(lambda: run(plan_chain("".join(words), "2, 6, 4", "h=2")))
    assert error is None or error.field == "chain"


VIEW = "view(2, 6, 4, 8).transpose(1, 2).view(2, 6, 32)"
MISTAKES = [
    (VIEW, 33, "view size is not compatible"),
    ("view(2, 6, 4, 9)", 5, "2 × 6 × 4 × 9 = 432 elements, but there are 384"),
    ("view(2, 6, -1, -1)", 15, "only one size can be -1"),
    ("view(2, 5, -1)", 11, "not a multiple of 10"),
    ("view(2, 6, 0, 32)", 11, "at least 1"),
    ("view(2, 6, -2, 16)", 11, "at least 1"),
    ("view(b, 6, 32)", 5, "b has no size"),
    ("view(2, 6, 32", 4, "not closed"),
    ("view(2, 6, (4, 8))", 11, "all of them in brackets"),
    ("view(2, 6, 32.)", 13, "stands where"),
    ("view(2 6, 32)", 7, "stands where"),
    ("transpse(1, 2)", 0, "no step transpse. Nearest: transpose"),
    ("transpose(1)", 0, "needs dim1"),
    ("transpose(1, 3)", 13, "no axis 3"),
    ("transpose(1, 2, 0)", 16, "at most"),
    ("transpose(1, dim2=2)", 13, "no argument dim2"),
    ("permute(0, 0, 1)", 11, "second time"),
    ("permute(0, 2)", 0, "2 axes are named, and (2, 6, 32) has 3"),
    ("flatten(2, 1)", 0, "start_dim 2 comes after"),
    ("unflatten(2, 4)", 13, "stand in brackets"),
    ("unflatten(2, (4, 9))", 14, "on axis 2"),
    ("expand(2, 12, 32)", 10, "only one of size 1"),
    ("expand(6, 32)", 0, "too few"),
    ("repeat(0, 1, 1)", 7, "at least 1"),
    ("unsqueeze(0).unsqueeze(0).unsqueeze(0).unsqueeze(0)", 39, "7 axes come out"),
    ("repeat(4096, 4096, 1)", 0, "over the limit"),
    ("__import__('os')", 11, "“'” has no meaning"),
    ("__import__(os)", 0, "no step __import__"),
    ("view(os)", 5, "os has no size"),
    ("view(2, 6, 32).__class__", 15, "no step __class__"),
    ("x.data", 2, "no step data"),
    ("view(2, 6, 32); 1", 14, "“;” has no meaning"),
    ("view(" + "(" * 40, 11, "deep"),
    (".".join(["contiguous()"] * 13), 156, "more than 12 steps"),
    ("view(2)." * 2000, 1200, "16,000 characters"),
    ("transpose(1, 2).", 16, "the text ends where a step"),
]  # fmt: skip


@pytest.mark.parametrize(("chain", "at", "words"), MISTAKES)
def test_a_mistake_is_named_where_it_stands(chain: str, at: int, words: str) -> None:
    with pytest.raises(ReshapeError, match=r"character \d+") as caught:
        plan_chain(chain, "2, 6, 32")
    assert words in str(caught.value)
    assert caught.value.start == at


@pytest.mark.parametrize(
    "chain", [VIEW, "view(2, 6, 4, 9)", "view(2, 5, -1)", "permute(0, 2)", "flatten(2, 1)"]
)
def test_every_repair_that_is_offered_works(chain: str) -> None:
    with pytest.raises(ReshapeError, match="character") as caught:
        plan_chain(chain, "2, 6, 32")
    assert caught.value.repairs
    for repair in caught.value.repairs:
        plan_chain(repair["chain"], "2, 6, 32")


def test_the_refused_view_is_explained_by_its_strides() -> None:
    with pytest.raises(ReshapeError, match="it steps 8") as caught:
        plan_chain("view(b, t, h, d).transpose(1, 2).view(b, t, h*d)", "b, t, h*d",
                   "b=2 t=6 h=4 d=8")  # fmt: skip
    assert "h must step 6 × 32 = 192 elements, the size of t times its stride" in str(caught.value)


def test_too_large_a_tensor_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("allocated")

    monkeypatch.setattr(torch, "arange", never)
    for shape, chain in ((f"{MAX_NUMEL}, 2", ""), ("4096, 4096, 4096", "flatten()"),
                         ("1", f"expand({MAX_NUMEL + 1})")):  # fmt: skip
        with pytest.raises(ReshapeError, match=r"over the limit of 16,777,216 \(64.0 MiB\)"):
            plan_chain(chain, shape)


def test_names_stand_for_their_sizes_and_name_the_axes() -> None:
    done = run(plan_chain("x.view(b, t, h, d_model // h)\n .transpose(1, 2)", "b t d_model",
                          "b=2, t=6, d_model=32, h=4"))  # fmt: skip
    assert [step.shape for step in done.steps] == [(2, 6, 32), (2, 6, 4, 8), (2, 4, 6, 8)]
    assert done.steps[-1].names == ("b", "h", "t", "d_model//h")


def test_heads_merged_without_transposing_back_are_named() -> None:
    """The shape is right, and the elements are not: the classic silent mistake."""
    with pytest.raises(ReshapeError, match="cut across the old ones"):
        plan_chain(VIEW, "2, 6, 32")
    done = run(plan_chain("view(2, 6, 4, 8).transpose(1, 2).reshape(2, 6, 32)", "2, 6, 32"))
    assert done.einops is None
    assert "cut across the old ones" in done.steps[3].why
    right = run(plan_chain("transpose(1, 2).reshape(2, 6, 32)", "2, 4, 6, 8"))
    assert right.agrees
    assert "cut across" not in right.steps[2].why


def test_a_chain_that_regroups_has_no_pattern() -> None:
    done = run(plan_chain("view(4, 6).transpose(0, 1)", "6, 4"))
    assert done.einops is None
    assert done.plan.parts.since == 1
    assert done.steps[-1].corner[1].tolist() == [1, 7, 13, 19]
