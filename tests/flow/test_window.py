"""What is drawn of a large tensor: first, last and the followed index, and no more than fits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_core import MHAConfig
from mha_core.window import Element, Window, index_ranges, visible_indices, window
from tests.flow.support import followed, whole


@st.composite
def axes(draw):
    size = draw(st.integers(1, 60))
    return size, draw(st.integers(1, 12)), draw(st.integers(0, size - 1))


@given(axes())
def test_the_indices_of_an_axis_are_some_of_it_in_order_with_the_followed_one(axis):
    size, limit, must = axis
    drawn = visible_indices(size, limit, must)
    assert list(drawn) == sorted(set(drawn))
    assert set(drawn) <= set(range(size))
    assert must in drawn
    assert len(drawn) <= max(limit, 1) + 1


@given(axes())
def test_the_first_and_the_last_are_drawn_wherever_there_is_room(axis):
    size, limit, must = axis
    drawn = visible_indices(size, limit, must)
    if limit >= 2:
        assert drawn[0] == 0
    if limit >= 3 or (must in (0, size - 1) and limit == 2):
        assert drawn[-1] == size - 1


@given(axes())
def test_an_axis_is_whole_until_leaving_out_saves_more_than_the_ellipsis(axis):
    size, limit, must = axis
    drawn = visible_indices(size, limit, must)
    if size <= limit + 1:
        assert drawn == tuple(range(size))
    else:
        assert len(drawn) == limit
        # At most two ellipses: before and after the followed index.
        assert sum(b != a + 1 for a, b in pairwise(drawn)) <= 2


@pytest.mark.parametrize(
    ("size", "limit", "must", "drawn"),
    [
        (20, 6, 0, (0, 1, 2, 17, 18, 19)),
        (20, 6, 9, (0, 1, 9, 17, 18, 19)),
        (20, 5, 18, (0, 1, 2, 18, 19)),
        (20, 2, 9, (0, 9)),
        (20, 2, 19, (0, 19)),
        (20, 1, 9, (9,)),
        (7, 6, 3, (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_some_axes_by_hand(size, limit, must, drawn):
    assert visible_indices(size, limit, must) == drawn


@st.composite
def views(draw):
    """Configurations of any size; nothing runs."""
    heads, d_k = draw(st.integers(1, 40)), draw(st.integers(1, 70))
    made = MHAConfig(
        batch=draw(st.integers(1, 40)),
        time=draw(st.integers(1, 400)),
        heads=heads,
        d_model=heads * d_k,
    )
    return made, draw(followed(made))


@given(views())
def test_a_scene_has_about_a_thousand_marks_at_most(view):
    made, element = view
    drawn = window(made, element)
    assert drawn.marks == len(drawn.batch) * len(drawn.time) * len(drawn.heads) * len(drawn.d_k)
    assert drawn.marks <= 1000
    assert len(drawn.batch) * len(drawn.heads) * len(drawn.time) ** 2 <= 1000


@pytest.mark.parametrize(
    "sizes", [(3, 7, 9, 9), (3, 7, 9, 1), (3, 7, 1, 9), (2, 6, 8, 8), (9, 99, 99, 99)]
)
def test_axes_that_are_just_whole_do_not_add_up_to_more(sizes):
    batch, time, heads, d_k = sizes
    made = MHAConfig(batch=batch, time=time, heads=heads, d_model=heads * d_k)
    drawn = window(made, Element(0, 0, 0))
    assert drawn.marks <= 1000
    assert len(drawn.batch) * len(drawn.heads) * len(drawn.time) ** 2 <= 1000


@given(views(), st.integers(1, 1000))
def test_a_window_holds_the_followed_element_and_the_key_beside_it(view, marks):
    made, element = view
    drawn = window(made, element, marks=marks)
    head, j = divmod(element.c, made.d_k)
    place = (element.b, element.t, head, j)
    for indices, must in zip((drawn.batch, drawn.time, drawn.heads, drawn.d_k), place, strict=True):
        assert must in indices
        assert list(indices) == sorted(set(indices))
    assert drawn.time[0] == 0  # every map is entered at key 0


@given(views(), st.sampled_from([60, 120, 240, 480]))
def test_fewer_marks_asked_for_are_fewer_marks_drawn(view, marks):
    made, element = view
    # Three an axis remain whatever is asked for.
    assert window(made, element, marks=marks).marks <= max(marks, 3**4)


def test_a_small_tensor_is_drawn_whole():
    made = MHAConfig(batch=2, time=5, heads=3, d_model=21)
    assert window(made, Element(1, 4, 20)) == whole(made)


def test_columns_of_d_model_are_those_of_the_heads_drawn():
    d_k = 5
    win = Window(batch=(0, 2), time=(0, 1, 8), heads=(0, 3), d_k=(0, 4))
    found = index_ranges(("time", "h", "d_k", "d_model", "batch"), win, d_k)
    wanted = [[0, 1, 8], [0, 3], [0, 4], [0, 4, 15, 19], [0, 2]]
    assert [np.asarray(axis).tolist() for axis in found] == wanted
