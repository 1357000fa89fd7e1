"""The flow of a reshape: every mark where torch put its element, at every step, within bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core.errors import ConfigError
from mha_core.reshape import Flow, Run, flow, plan_chain, plan_pattern, run
from mha_core.reshape.flow import colour_axes, colour_axis
from mha_core.reshape.presets import PRESETS
from mha_core.reshape.run import tensors
from mha_core.reshape.why import blocking
from tests.reshape.strategies import Pattern, patterns

LARGE = [
    ("b t (h d) -> b h t d", "8, 256, 512", "h=8"),
    ("b h t d -> b t (h d)", "4, 12, 128, 64", ""),
    ("b g t d -> b (g r) t d", "2, 4, 64, 64", "r=8"),
    ("b c (h p) (w q) -> b (h w) (p q c)", "2, 3, 64, 64", "p=16 q=16"),
    ("a b -> (a b)", "300, 700", ""),
    ("a -> a", "100000", ""),
    ("(a b) -> b a", "65536", "a=256"),
]


def check(done: Run, found: Flow) -> None:
    """By torch's own tensors: the element is there, its offset is there."""
    for scene, y in zip(found.scenes, tensors(done.plan), strict=True):
        places = tuple(torch.from_numpy(column) for column in scene.index.T)
        assert np.array_equal(y[places].reshape(-1).numpy(), found.identity)
        assert int(y[scene.place]) == found.element
        storage = torch.as_strided(y, (y.untyped_storage().nbytes() // 4,), (1,), 0)
        assert int(storage[scene.offset]) == found.element
    assert found.marked.any()
    assert np.array_equal(found.marked, found.identity == found.element)


@settings(max_examples=80)
@given(patterns(), st.integers(0, 10**6))
def test_every_mark_stands_where_torch_put_it(pattern: Pattern, number: int) -> None:
    done = run(plan_pattern(pattern.text, pattern.typed_shape, pattern.typed_sizes))
    found = flow(done, number % done.plan.numel)
    check(done, found)
    last = math.prod(done.steps[-1].shape)
    assert found.copies == last // done.plan.numel
    if found.complete:
        assert len(found.identity) == last
        assert np.array_equal(np.bincount(found.identity), np.full(done.plan.numel, found.copies))


@pytest.mark.parametrize(("pattern", "shape", "axes"), LARGE)
def test_a_large_tensor_is_seen_through_a_window(pattern: str, shape: str, axes: str) -> None:
    done = run(plan_pattern(pattern, shape, axes))
    for element in (0, done.plan.numel // 3, done.plan.numel - 1):
        found = flow(done, element)
        check(done, found)
        assert not found.complete
        assert 8 <= len(found.identity) <= 500
        narrow = flow(done, element, marks=120, across=34)
        assert len(narrow.identity) <= 120
        for scene in narrow.scenes:
            if len(scene.step.shape) == 2:
                assert len(np.unique(scene.index[:, 1])) <= 34


def test_what_regroups_is_followed_by_torch_alone() -> None:
    done = run(plan_chain("view(40, 60).transpose(0, 1).reshape(48, 50)", "60, 40"))
    assert done.plan.parts.since > 0
    for element in (0, 1234, 2399):
        found = flow(done, element)
        check(done, found)
        assert len(found.identity) <= 200


def test_copies_start_from_the_one_they_are_copies_of() -> None:
    done = run(plan_pattern("a b -> a r b", "2, 3", "r=4"))
    found = flow(done, 4)
    assert found.copies == found.places(len(found.scenes) - 1) == 4
    assert found.marked.sum() == 4
    first, last = found.scenes[0], found.scenes[-1]
    assert {tuple(i) for i in first.index[found.marked].tolist()} == {(1, 1)}
    assert {tuple(i) for i in last.index[found.marked].tolist()} == {(1, r, 1) for r in range(4)}
    assert found.places(0) == 1


@pytest.mark.parametrize("element", [-1, 384, 10**9])
def test_an_element_that_is_not_there_is_refused(element: int) -> None:
    done = run(plan_pattern("b t c -> t b c", "2, 6, 32"))
    with pytest.raises(ConfigError, match="must be from 0 to 383") as caught:
        flow(done, element)
    assert flow(done, caught.value.repairs[0]["element"])


@pytest.mark.parametrize("name", PRESETS)
def test_presets_run_and_einops_agrees(name: str) -> None:
    known = PRESETS[name]
    done = run(plan_pattern(known.pattern, known.shape, known.axes))
    assert done.agrees
    found = flow(done, known.element)
    check(done, found)
    assert found.complete
    assert colour_axis(done, known.colour) == known.colour
    assert known.colour in colour_axes(done)
    moved = [s for a, s in zip(found.scenes, found.scenes[1:], strict=False) if a.place != s.place]
    assert moved, "the followed element goes somewhere"


def test_colours_fall_back_to_an_axis_there_is() -> None:
    done = run(plan_pattern("b t (h d) -> b h t d", "2, 6, 32", "h=4"))
    assert colour_axis(done, "out9") == "out1"
    assert colour_axis(done, "") == "out1"
    assert colour_axis(run(plan_pattern("a -> a", "1")), "in0") == ""
    assert list(colour_axes(done)) == ["in0", "in1", "in2", "out0", "out1", "out2", "out3"]


@given(st.data())
def test_the_rule_of_strides_is_torchs(data: st.DataObject) -> None:
    """A view is possible exactly where no border of memory falls inside a new axis."""
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(shape))))
    x = torch.empty(shape, device="meta").permute(order)
    if data.draw(st.booleans()):
        x = x.unsqueeze(0).expand(2, *x.shape)
    primes = [2] * 10 + [3] * 6
    sizes: list[int] = []
    rest = x.numel()
    for prime in data.draw(st.permutations(primes)):
        if rest % prime == 0:
            rest //= prime
            if sizes and data.draw(st.booleans()):
                sizes[-1] *= prime
            else:
                sizes.append(prime)
    sizes = sizes or [1]
    if math.prod(sizes) != x.numel():
        return
    try:
        x.view(sizes)
        possible = True
    except RuntimeError:
        possible = False
    assert (blocking(tuple(x.shape), x.stride(), sizes) is None) == possible
