"""einops patterns: the same shape, elements and copies as einops itself, and refused with it."""

from __future__ import annotations

import math
import warnings

import einops
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from mha_core.reshape import ReshapeError, plan_pattern, run
from mha_core.reshape.limits import MAX_AXES
from mha_core.reshape.run import tensors
from tests.reshape.strategies import NAMES, Pattern, patterns, refusal


def by_einops(text: str, shape: tuple[int, ...], sizes: dict[str, int]) -> torch.Tensor | None:
    """What einops makes of arange(numel).view(shape), by rearrange or repeat; None if neither."""
    x = torch.arange(math.prod(shape), dtype=torch.int32).view(shape)
    for function in (einops.rearrange, einops.repeat):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made: torch.Tensor = function(x, text, **sizes)
        except (einops.EinopsError, ValueError, RuntimeError):
            continue
        return made
    return None


def shares(y: torch.Tensor, x: torch.Tensor) -> bool:
    return y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@given(patterns())
def test_every_step_of_a_pattern_leads_to_what_einops_gives(pattern: Pattern) -> None:
    plan = plan_pattern(pattern.text, pattern.typed_shape, pattern.typed_sizes)
    x, *later = tensors(plan)
    y = later[-1] if later else x
    function = einops.repeat if pattern.repeats else einops.rearrange
    expected = function(x, pattern.text, **pattern.sizes)
    assert y.shape == expected.shape
    assert torch.equal(y, expected)
    assert shares(y, x) == shares(expected, x)
    done = run(plan)
    assert done.agrees
    assert done.einops is not None
    assert done.einops.function == function.__name__
    strides = zip(y.shape, y.stride(), expected.stride(), strict=True)
    assert all(ours == theirs for size, ours, theirs in strides if size > 1)


@given(patterns(copies=False))
def test_without_a_shape_the_sizes_say_it(pattern: Pattern) -> None:
    known = plan_pattern(pattern.text, pattern.typed_shape, pattern.typed_sizes)
    named = {a for axis in pattern.text.split("->")[0].replace("(", " ").replace(")", " ").split()
             if (a := axis).isidentifier()}  # fmt: skip
    assume(named <= set(pattern.sizes))
    assert plan_pattern(pattern.text, "", pattern.typed_sizes).shape == known.shape


@given(
    st.text(alphabet="bthd12 ()->.…", max_size=24),
    st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    st.dictionaries(st.sampled_from(NAMES[:4]), st.integers(1, 4), max_size=3),
)
def test_what_einops_refuses_is_refused_and_no_more(
    text: str, shape: tuple[int, ...], sizes: dict[str, int]
) -> None:
    expected = by_einops(text, shape, sizes)
    typed = ", ".join(map(str, shape)), " ".join(f"{n}={s}" for n, s in sizes.items())
    error = refusal(lambda: plan_pattern(text, *typed))
    if error is not None:
        assert expected is None or "at most 6 are drawn" in str(error) or "number" in error.rule
        return
    assert expected is not None
    y = list(tensors(plan_pattern(text, *typed)))[-1]
    assert torch.equal(y, expected)


@given(st.text(max_size=60), st.text(max_size=12), st.text(max_size=12))
def test_whatever_is_typed_is_run_or_refused_with_its_place(
    pattern: str, shape: str, axes: str
) -> None:
    error = refusal(lambda: plan_pattern(pattern, shape, axes))
    if error is not None:
        assert error.text == {"pattern": pattern, "shape": shape, "axes": axes}[error.field]
        first, second = error.pointed().split("\n")
        assert set(second.strip()) == {"^"}
        assert len(second) <= len(first) + 1


# Position of the caret, and words that must be said, for what people get wrong.
MISTAKES = [
    ("b t (h d -> b h t d", "2, 6, 32", "h=4", 4, "not closed"),
    ("b t h d) -> b h t d", "2, 6, 32", "h=4", 7, "no bracket is open"),
    ("b t ((h d)) -> b h t d", "2, 6, 32", "h=4", 5, "one level"),
    ("b t (h d)", "2, 6, 32", "h=4", 9, "no ->"),
    ("b t (h d) > b h t d", "2, 6, 32", "h=4", 10, "written ->"),
    ("b, t -> t b", "2, 6", "", 1, "spaces alone"),
    ("b t (h d) -> b h t d -> b", "2, 6, 32", "h=4", 21, "second ->"),
    ("b t (h h) -> b h t", "2, 6, 32", "h=4", 7, "second time"),
    ("b t (h d) -> b h t", "2, 6, 32", "h=4", 7, "loses no axis"),
    ("b t (h d) -> b h t d r", "2, 6, 32", "h=4", 21, "new on the right"),
    ("b t (h d) -> b h t d", "2, 6, 32", "", 5, "have no size"),
    ("b t (h d) -> b h t d", "2, 6, 11", "h=2", 4, "size 11, which h=2 does not divide"),
    ("b t h d -> b h t d", "2, 6, 32", "", 6, "has 4 axes, and x has 3"),
    ("b t -> t b", "2, 6", "t=7", 2, "size 6 in x, but t=7"),
    ("b é -> é b", "2, 6", "", 2, "“é” has no meaning"),
    ("b 2t -> 2t b", "2, 6", "", 2, "begin with a digit"),
    ("b 0 -> 0 b", "2, 6", "", 2, "at least 1"),
    ("b 2 -> 2 b", "2, 6", "", 2, "must be a name"),
    ("b t_ -> t_ b", "2, 6", "", 2, "ends with _"),
    ("b in -> in b", "2, 6", "", 2, "word of Python"),
    ("b .. -> .. b", "2, 6", "", 2, "three dots"),
    ("b (... d) -> b d ...", "2, 6", "d=2", 3, "cannot stand in brackets"),
    ("b -> b ...", "2", "", 7, "on the left too"),
    ("... ... -> ...", "2", "", 4, "second ellipsis"),
    ("a b c d e f g -> g f e d c b a", "", "a=1 b=1 c=1 d=1 e=1 f=1 g=1", 12, "at most 6"),
    ("b t -> b (t r)", "4096, 4096", "r=4", 6, "over the limit"),
    ("b" * 10_000, "2", "", 400, "10,000 characters"),
    ("(" * 300, "2", "", 300, "no ->"),
    ("", "2", "", 0, "nothing is typed"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "shape", "axes", "at", "words"), MISTAKES)
def test_a_mistake_is_named_where_it_stands(
    pattern: str, shape: str, axes: str, at: int, words: str
) -> None:
    with pytest.raises(ReshapeError, match=r"character \d+") as caught:
        plan_pattern(pattern, shape, axes)
    error = caught.value
    assert error.field == "pattern"
    assert error.start == at
    assert words in str(error)


@pytest.mark.parametrize(
    ("shape", "axes", "field", "at", "words"),
    [
        ("2, 6, 32", "h=4 z=2", "axes", 4, "z is not in the pattern"),
        ("2, 6, 32", "h=4 h=2", "axes", 4, "has a size already"),
        ("2, 6, 32", "h=0", "axes", 2, "at least 1"),
        ("2, 6, 32", "h", "axes", 1, "should follow h"),
        ("2, 6, 32", "h=4=2", "axes", 3, "a name should stand here"),
        ("2, 6, 32", "h=-4", "axes", 2, "at least 1"),
        ("2, 0, 32", "h=4", "shape", 3, "at least 1"),
        ("2, -1, 32", "h=4", "shape", 3, "at least 1"),
        ("2, 6, 32, 7", "h=4", "shape", 10, "has 3 axes, and x has 4"),
        ("2; 6, 32", "h=4", "shape", 1, "“;” has no meaning"),
        ("(2, 6, 32", "h=4", "shape", 0, "not closed"),
        ("2, 6, k", "h=4", "shape", 6, "k has no size"),
        ("2, 6, 9999999999999", "h=4", "shape", 6, "13 digits"),
        ("2, 6, ((((((((32))))))))", "h=4", "shape", 12, "deep"),
        ("2, 6, 32//5", "h=4", "shape", 6, "remainder"),
    ],
)
def test_so_is_one_in_the_shape_or_the_sizes(
    shape: str, axes: str, field: str, at: int, words: str
) -> None:
    with pytest.raises(ReshapeError, match=r"character \d+") as caught:
        plan_pattern("b t (h d) -> b h t d", shape, axes)
    assert (caught.value.field, caught.value.start) == (field, at)
    assert words in str(caught.value)


def test_the_order_in_brackets_matters() -> None:
    """(h d) is not (d h): equal shapes, other elements."""
    one = run(plan_pattern("(h d) -> h d", "6", "h=2")).steps[-1]
    other = run(plan_pattern("(d h) -> h d", "6", "h=2")).steps[-1]
    assert one.shape == other.shape == (2, 3)
    assert one.corner.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert other.corner.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_six_axes_are_the_most() -> None:
    assert len(run(plan_pattern("a b c d e f -> f e d c b a", "1 2 1 2 1 2")).steps[-1].shape) == 6
    with pytest.raises(ReshapeError, match=f"at most {MAX_AXES}"):
        plan_pattern("(a b c d) (e f g) -> a b c d e f g", "8, 8", "a=2 b=2 c=1 e=2 f=2")


def test_an_ellipsis_stands_for_what_is_left() -> None:
    plan = plan_pattern("b ... (h d) -> b h ... d", "2, 3, 5, 12", "h=3")
    x, *_, y = tensors(plan)
    assert torch.equal(y, einops.rearrange(x, "b ... (h d) -> b h ... d", h=3))


@pytest.mark.parametrize(
    ("pattern", "axes"),
    [
        ("b t (h d -> b h t d", "h=4"),
        ("b t (h d)) -> b h t d", "h=4"),
        ("b t ((h d)) -> b h t d", "h=4"),
        ("b t (h d) -> b h t d", ""),
        ("b t (h d) -> b h t d", "h=4 z=2"),
        ("b t (h d) -> b h t d", "z=2, h=4"),
    ],
)
def test_a_repair_that_is_offered_works(pattern: str, axes: str) -> None:
    typed = {"pattern": pattern, "axes": axes}
    with pytest.raises(ReshapeError, match="character") as caught:
        plan_pattern(pattern, "2, 6, 32", axes)
    typed |= caught.value.repairs[0]
    plan = plan_pattern(typed["pattern"], "2, 6, 32", typed["axes"])
    assert plan.ops[-1].shape == (2, 4, 6, 8)
