"""Boxes and cells on a map, as a hand makes them: drag, click, double click, keyboard, Escape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Server, serve
from tests.browser.driver import TIMEOUT, App, number_after
from tests.browser.watch import Watch
from tests.browser.zoom_page import LIMIT, TIME, values

pytestmark = pytest.mark.browser

CELL = TIME // LIMIT  # positions a cell of the whole map
STAYS = 700  # milliseconds in which nothing more may arrive


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("zoom") / "log.txt"
    with serve("tests/browser/zoom_page.py", log) as started:
        yield started


class Zoom:
    """The page of `zoom_page`."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.app = App(page)

    @property
    def map(self) -> Locator:
        return self.page.locator(".pic[data-zoom]")

    @property
    def band(self) -> Locator:
        return self.page.locator(".map .band")

    @property
    def tip(self) -> Locator:
        return self.page.locator(".soa-tip:visible")

    def tells(self, *expected: str) -> None:
        """All that the script sent, and then nothing more."""
        text = "\n".join(["told:", *expected])
        expect(self.page.get_by_test_id("stCode")).to_have_text(text)
        self.page.wait_for_timeout(STAYS)
        self.app.settle()
        expect(self.page.get_by_test_id("stCode")).to_have_text(text)

    def patient(self) -> None:
        """Two clicks make a double click however slow the machine is between them."""
        self.page.evaluate(
            "() => { const real = setTimeout;"
            " window.setTimeout = (f, ms, ...rest) => real(f, ms === 250 ? 20000 : ms, ...rest); }"
        )

    def at(self, row: float, column: float, cells: int = LIMIT) -> tuple[float, float]:
        """The middle of a cell on the screen."""
        box = self.map.bounding_box()
        assert box is not None
        return (
            box["x"] + box["width"] * (column + 0.5) / cells,
            box["y"] + box["height"] * (row + 0.5) / cells,
        )

    def drag(self, start: tuple[float, float], end: tuple[float, float], *, drop: bool = True):
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down()
        mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=3)
        mouse.move(*end, steps=3)
        if drop:
            mouse.up()

    def labels(self, side: str) -> list[str]:
        return self.page.locator(f".map .{side}lab span").all_text_contents()

    def keys(self, *names: str) -> None:
        for name in names:
            self.page.keyboard.press(name)

    def focus(self) -> None:
        """By keyboard, as a person reaches it: back from the button behind it."""
        self.page.get_by_role("button", name="other").focus()
        self.keys("Shift+Tab")
        expect(self.tip).to_be_visible()


@pytest.fixture
def zoom(browser: Browser, served: Server) -> Iterator[Zoom]:
    context = browser.new_context(viewport={"width": 1000, "height": 900}, has_touch=True)
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    watch = Watch(served.log)
    watch.page(page)
    page.goto(served.url, timeout=TIMEOUT)
    expect(page.locator(".pic[data-zoom]")).to_be_visible()
    found = Zoom(page)
    found.app.settle()
    yield found
    complaints = watch.complaints()
    context.close()
    assert not complaints, "\n".join(complaints)


# --- the mouse ----------------------------------------------------------------------------------


def test_a_box_is_drawn_sent_once_and_recomputed(zoom: Zoom) -> None:
    zoom.drag(zoom.at(10, 2), zoom.at(13, 6), drop=False)
    expect(zoom.band).to_be_visible()
    expect(zoom.tip).to_have_text("queries 30–32 … 39–41\nkeys 6–8 … 18–20")
    drawn, whole = zoom.band.bounding_box(), zoom.map.bounding_box()
    assert drawn is not None
    assert whole is not None
    side = whole["width"] / LIMIT
    assert drawn["x"] - whole["x"] == pytest.approx(2 * side, abs=1)
    assert drawn["y"] - whole["y"] == pytest.approx(10 * side, abs=1)
    assert drawn["width"] == pytest.approx(5 * side, abs=1)
    assert drawn["height"] == pytest.approx(4 * side, abs=1)
    zoom.page.mouse.up()
    zoom.tells("box (30, 42) (6, 21)")
    # Single cells now, with their tokens: 12 queries and 15 keys.
    assert zoom.labels("y") == [f"w{n}" for n in range(30, 42)]
    assert zoom.labels("x") == [f"w{n}" for n in range(6, 21)]


@pytest.mark.parametrize("end", [(2, 6), (5, 1), (2, 1)])
def test_a_box_may_be_drawn_from_any_corner(zoom: Zoom, end: tuple[int, int]) -> None:
    start = (5 if end[0] == 2 else 2, 1 if end[1] == 6 else 6)
    zoom.drag(zoom.at(*start), zoom.at(*end))
    zoom.tells("box (6, 18) (3, 21)")


def test_a_drag_goes_on_outside_of_the_picture(zoom: Zoom) -> None:
    x, y = zoom.at(15, 15)
    box = zoom.map.bounding_box()
    assert box is not None
    beyond = (box["x"] + box["width"] + 90, box["y"] + box["height"] + 60)
    zoom.drag((x, y), beyond, drop=False)
    expect(zoom.band).to_be_visible()
    zoom.page.mouse.up()
    zoom.tells(f"box (45, {TIME}) (45, {TIME})")


def test_a_click_sends_its_cell_and_no_box(zoom: Zoom) -> None:
    zoom.page.mouse.click(*zoom.at(7, 3))
    zoom.tells("cell (21, 24) (9, 12)")
    # A hand is not quite still.
    x, y = zoom.at(8, 4)
    zoom.drag((x, y), (x + 2, y + 1))
    zoom.tells("cell (21, 24) (9, 12)", "cell (24, 27) (12, 15)")
    expect(zoom.band).to_be_hidden()


def test_escape_gives_a_drag_up(zoom: Zoom) -> None:
    zoom.drag(zoom.at(3, 3), zoom.at(9, 9), drop=False)
    expect(zoom.band).to_be_visible()
    zoom.keys("Escape")
    expect(zoom.band).to_be_hidden()
    zoom.page.mouse.move(*zoom.at(12, 12), steps=3)
    expect(zoom.band).to_be_hidden()
    zoom.page.mouse.up()
    zoom.tells()
    zoom.drag(zoom.at(3, 3), zoom.at(4, 4))  # and the next one counts
    zoom.tells("box (9, 15) (9, 15)")


def test_a_double_click_goes_back_and_chooses_nothing(zoom: Zoom) -> None:
    zoom.drag(zoom.at(10, 2), zoom.at(13, 6))
    expect(zoom.map).to_have_attribute("data-zoom", "inside")
    zoom.app.settle()
    zoom.patient()
    zoom.page.mouse.dblclick(*zoom.at(0, 0, 12))
    expect(zoom.map).to_have_attribute("data-zoom", "whole")
    zoom.tells("box (30, 42) (6, 21)", "reset")


def test_a_click_inside_a_part_sends_its_cell_after_a_moment(zoom: Zoom) -> None:
    zoom.drag(zoom.at(10, 2), zoom.at(13, 5))  # 12 x 12
    expect(zoom.map).to_have_attribute("data-zoom", "inside")
    zoom.app.settle()
    zoom.page.mouse.click(*zoom.at(2, 3, 12))
    zoom.tells("box (30, 42) (6, 18)", "cell (32, 33) (9, 10)")


def test_a_click_at_once_followed_by_a_drag_sends_the_box_alone(zoom: Zoom) -> None:
    zoom.drag(zoom.at(10, 2), zoom.at(13, 5))
    expect(zoom.map).to_have_attribute("data-zoom", "inside")
    zoom.app.settle()
    zoom.patient()
    zoom.page.mouse.click(*zoom.at(2, 3, 12))
    zoom.drag(zoom.at(4, 4, 12), zoom.at(7, 7, 12))
    zoom.tells("box (30, 42) (6, 18)", "box (34, 38) (10, 14)")


def test_the_other_button_and_other_elements_do_not_zoom(zoom: Zoom) -> None:
    zoom.page.mouse.click(*zoom.at(7, 3), button="right")
    zoom.keys("Escape")
    zoom.tells()
    zoom.page.get_by_role("button", name="other").click()
    zoom.tells("pick other")


# --- hover --------------------------------------------------------------------------------------


def test_the_hover_tells_rows_and_columns_by_their_own_labels(zoom: Zoom) -> None:
    zoom.page.mouse.move(*zoom.at(10, 2))
    expect(zoom.tip).to_contain_text("query 30–32 → key 6–8")
    largest = float(values()[30:33, 6:9].max())
    assert number_after("max weight", zoom.tip.inner_text()) == float(f"{largest:.3e}")
    zoom.page.mouse.move(*zoom.at(2, 10))
    expect(zoom.tip).to_have_text("query 6–8 → key 30–32\nmasked")
    zoom.drag(zoom.at(10, 2), zoom.at(13, 6))  # 12 x 15
    expect(zoom.map).to_have_attribute("data-zoom", "inside")
    zoom.app.settle()
    box = zoom.map.bounding_box()
    assert box is not None
    assert box["width"] / box["height"] == pytest.approx(15 / 12, rel=0.01)
    zoom.page.mouse.move(
        box["x"] + box["width"] * 4.5 / 15, box["y"] + box["height"] * 7.5 / 12, steps=2
    )
    expect(zoom.tip).to_contain_text("query 37 “w37” → key 10 “w10”")
    exact = float(values()[37, 10])
    assert number_after("weight", zoom.tip.inner_text()) == float(f"{exact:.3e}")
    zoom.page.mouse.move(5, 5)
    expect(zoom.tip).to_have_count(0)


# --- the keyboard -------------------------------------------------------------------------------


def test_a_cell_is_chosen_by_keyboard(zoom: Zoom) -> None:
    zoom.focus()
    zoom.keys("ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    zoom.tells("cell (6, 9) (3, 6)")


def test_a_box_is_drawn_by_keyboard(zoom: Zoom) -> None:
    zoom.focus()
    zoom.keys("ArrowDown", "ArrowRight")
    zoom.keys("Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight")
    expect(zoom.tip).to_have_text("queries 3–5 … 9–11\nkeys 3–5 … 6–8")
    expect(zoom.band).to_be_visible()
    zoom.keys("Enter")
    expect(zoom.map).to_have_attribute("data-zoom", "inside")
    zoom.tells("box (3, 12) (3, 9)")
    # The focus is on the new picture: on with the arrows.
    expect(zoom.map).to_be_focused()
    zoom.keys("ArrowDown", "Enter")
    zoom.tells("box (3, 12) (3, 9)", "cell (4, 5) (3, 4)")


def test_escape_and_a_plain_arrow_give_a_box_up(zoom: Zoom) -> None:
    zoom.focus()
    for leave in ("Escape", "ArrowUp"):
        zoom.keys("Shift+ArrowDown", "Shift+ArrowRight")
        expect(zoom.band).to_be_visible()
        zoom.keys(leave)
        expect(zoom.band).to_be_hidden()
    zoom.keys("Enter")
    zoom.tells("cell (3, 6) (6, 9)")


def test_a_box_stops_at_the_edge(zoom: Zoom) -> None:
    zoom.focus()
    zoom.keys("Shift+ArrowUp", "Shift+ArrowLeft", "Shift+ArrowRight", "Enter")
    zoom.tells("box (0, 3) (0, 6)")


# --- touch --------------------------------------------------------------------------------------


class Finger:
    """One finger on the screen."""

    def __init__(self, zoom: Zoom) -> None:
        self.session = zoom.page.context.new_cdp_session(zoom.page)

    def __call__(self, kind: str, *points: tuple[float, float]) -> None:
        found = [{"x": x, "y": y} for x, y in points]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": found})


def test_a_finger_draws_a_box_sideways(zoom: Zoom) -> None:
    (x, y), (right, low) = zoom.at(10, 2), zoom.at(13, 8)
    touch = Finger(zoom)
    touch("touchStart", (x, y))
    for step in range(1, 9):
        touch("touchMove", (x + (right - x) * step / 8, y))
    touch("touchMove", (right, low))
    expect(zoom.band).to_be_visible()
    touch("touchEnd")
    zoom.tells("box (30, 42) (6, 27)")


def test_a_finger_that_moves_down_scrolls(zoom: Zoom) -> None:
    zoom.page.set_viewport_size({"width": 390, "height": 400})
    before = zoom.map.bounding_box()
    assert before is not None
    x, y = zoom.at(8, 10)
    touch = Finger(zoom)
    touch("touchStart", (x, y))
    for step in range(1, 9):
        touch("touchMove", (x, y - 20 * step))
    touch("touchEnd")
    expect(zoom.band).to_be_hidden()
    zoom.tells()
    scrolled = zoom.map.bounding_box()
    assert scrolled is not None
    assert scrolled["y"] < before["y"] - 50


def test_a_tap_chooses_a_cell(zoom: Zoom) -> None:
    zoom.page.touchscreen.tap(*zoom.at(9, 4))
    zoom.tells("cell (27, 30) (12, 15)")
