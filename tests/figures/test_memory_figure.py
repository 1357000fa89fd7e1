"""The memory figure: every element once on either side, in the order of memory, none clipped."""

from __future__ import annotations

import io
import random
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mha_core import MHAConfig, memory, trace_forward
from mha_core.export.memory_png import png
from mha_core.figures.memory_layout import Picture, lines, picture, sheet, with_key
from mha_core.figures.memory_paint import Marks, alt, fills, marks
from mha_core.figures.memory_svg import svg
from mha_core.palette import DARK, LIGHT, Palette, rgb
from mha_core.window import Element, window

ELEMENT = Element(1, 3, 9)


def drawn(
    config: MHAConfig, step: str, width: int, colours: Palette = LIGHT
) -> tuple[Picture, Marks, str]:
    """Picture and marks of one step, as the page makes them."""
    trace = trace_forward(config, clock=False)
    win = with_key(window(config, ELEMENT, marks=400 if width >= 560 else 110), 0)
    made = picture(trace[step], win, config.d_k, sheet(trace.steps, win, config.d_k, width))
    tensor = trace.tensor(step)
    stop = next(one for one in memory.journey(trace, ELEMENT) if one.step.id == step)
    beside, along = memory.in_memory(tensor, stop.place), memory.in_tensor(tensor, stop.place)
    stored = memory.stored(tensor)
    shown = marks(made, stop.place, beside, along, stored=stored, colours=colours)
    return made, shown, alt(made, stop.place)


@settings(max_examples=100, deadline=None)
@given(
    st.sets(st.integers(0, 400), min_size=1, max_size=120),
    st.integers(1, 12),
    st.integers(8, 32),
    st.randoms(),
)
def test_the_storage_is_written_in_the_order_of_memory(
    offsets: set[int], inner: int, limit: int, rng: random.Random
) -> None:
    shuffled = sorted(offsets)
    rng.shuffle(shuffled)
    offset = np.array(shuffled)
    made = lines(offset, inner, limit)
    order = np.argsort(offset)
    places = [(int(made.row[n]), float(made.column[n])) for n in order]
    assert places == sorted(places)
    assert len(set(places)) == len(offset)
    for (row, column), (after, further), gap in zip(
        places, places[1:], np.diff(offset[order]), strict=False
    ):
        if row == after:  # side by side exactly where they are so in memory
            assert (abs(further - column - 1) < 1e-9) == (gap == 1)
    assert made.starts == tuple(int(offset[order][[p[0] for p in places].index(r)])
                                for r in range(made.height))  # fmt: skip
    assert made.width >= max(column for _, column in places) + 1
    # An ellipsis wherever memory is left out, and nowhere else.
    assert len(made.gaps) == int((np.diff(offset[order]) != 1).sum())


@pytest.mark.parametrize("width", [340, 640, 1040, 1160])
@pytest.mark.parametrize(
    "config",
    [MHAConfig(), MHAConfig(batch=3, time=40, d_model=96, heads=12),
     MHAConfig(batch=64, time=128, d_model=512, heads=8), MHAConfig(heads=1, time=1, batch=2)],
    ids=["default", "windowed", "large", "one"],
)  # fmt: skip
def test_nothing_hangs_over_the_sheet(config: MHAConfig, width: int) -> None:
    element = Element(1, min(3, config.time - 1), 9)
    trace = trace_forward(config, clock=False, keep=())
    win = window(config, element, marks=400 if width >= 560 else 110)
    on = sheet(trace.steps, win, config.d_k, width)
    assert on.pitch > 4
    for step in trace.steps:
        made = picture(step, win, config.d_k, on)
        for xy in (made.index_xy, made.storage_xy):
            assert (xy > 0).all()
            assert (xy[:, 0] + on.pitch / 2 <= width + 0.1).all()
            assert (xy[:, 1] + on.pitch / 2 <= on.height).all()
            apart = {(round(x), round(y)) for x, y in (xy / on.pitch * 10).tolist()}
            assert len(apart) == len(xy)


@pytest.mark.parametrize("width", [340, 1040])
@pytest.mark.parametrize("step", ["input", "split_q", "transpose_q", "softmax", "weighted_values"])
@pytest.mark.parametrize(
    "config",
    [MHAConfig(), MHAConfig(batch=3, time=40, d_model=96, heads=12),
     MHAConfig(batch=16, time=128, d_model=256, heads=16)],
    ids=["default", "windowed", "large"],
)  # fmt: skip
def test_the_words_fit_the_sheet(config: MHAConfig, step: str, width: int) -> None:
    made, drawn_marks, _ = drawn(config, step, width)
    for word in drawn_marks.words:
        long = sum(len(text) for text, _ in word.parts) * word.size * 0.602
        start = word.x - long * {"start": 0, "middle": 0.5, "end": 1}[word.anchor]
        assert start >= -1, word
        assert start + long <= made.sheet.width + 1, word
        assert 8 <= word.y <= made.sheet.height, word


def test_the_chosen_element_and_its_neighbours_are_marked() -> None:
    made, drawn_marks, _ = drawn(MHAConfig(), "transpose_q", 1040)
    chosen = made.number((1, 1, 3, 1))
    assert chosen is not None
    assert made.drawn.offset[chosen] == 192 + 1 * 8 + 3 * 32 + 1
    assert drawn_marks.outlines == [
        tuple(made.index_xy[chosen].tolist()), tuple(made.storage_xy[chosen].tolist()),
    ]  # fmt: skip
    # Both neighbours in memory, on both sides; in the tensor 1 + 2 + 2 + 2.
    assert len(drawn_marks.dots) == 2 * 2
    assert len(drawn_marks.rings) == 2 * 7
    x, y = made.storage_xy[chosen]
    beside = {
        round((across - x) / made.sheet.pitch, 3)
        for across, down in drawn_marks.dots
        if across > made.sheet.right and abs(down - y) < 0.01
    }
    assert beside == {-1, 1}


def test_a_head_has_its_colour_on_both_sides() -> None:
    made, drawn_marks, _ = drawn(MHAConfig(), "transpose_q", 1040)
    colours = fills(made, LIGHT)
    last = [n for n, index in enumerate(made.drawn.index) if index[3] == 7]
    for n in last:
        assert colours[n] == LIGHT.head(int(made.drawn.index[n, 1]))
        assert tuple(made.index_xy[n]) in drawn_marks.squares[colours[n]]
        assert tuple(made.storage_xy[n]) in drawn_marks.squares[colours[n]]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_file_stands_alone(colours: Palette) -> None:
    made, drawn_marks, said = drawn(MHAConfig(), "merge", 1040, colours)
    root = ET.fromstring(svg(made, drawn_marks, alt=said, colours=colours, file=True))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert root.get("aria-label") == said
    boxes = [
        path.get("d", "").count("M")
        for path in root.iter(f"{space}path")
        if path.get("fill") != "none"
    ]
    assert sum(boxes) == 2 * 384
    assert "storage" in "".join(root.itertext())
    ground = root.find(f"{space}rect")
    assert ground is not None
    assert ground.get("fill") == colours.background


def test_on_the_page_there_is_a_layer_for_the_walk() -> None:
    made, drawn_marks, said = drawn(MHAConfig(), "merge", 1040)
    page = svg(made, drawn_marks, alt=said, colours=LIGHT)
    assert page.endswith('<g class="walk"></g></svg>')
    assert not re.search(r"nan|inf\b", page)


def test_the_picture_has_the_same_marks() -> None:
    made, drawn_marks, said = drawn(MHAConfig(), "transpose_q", 1040)
    image = Image.open(io.BytesIO(png(made, drawn_marks, alt=said, colours=LIGHT)))
    assert image.info["Description"] == said
    scale = image.width / made.sheet.width
    pixels = np.asarray(image.convert("RGB"))
    assert tuple(pixels[-1, -1]) == rgb(LIGHT.background)
    total = painted = 0
    plain = set(drawn_marks.dots) | set(drawn_marks.rings) | set(drawn_marks.outlines)
    for colour, centres in drawn_marks.squares.items():
        for x, y in set(centres) - plain:
            at = tuple(pixels[int(y * scale), int(x * scale)].tolist())
            total += 1
            painted += at == rgb(colour)
    # All but the few that the dotted path crosses.
    assert total > 700
    assert painted > 0.95 * total
