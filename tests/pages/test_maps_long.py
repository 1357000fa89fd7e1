"""Maps computed block by block on the page: the same as whole ones, with progress and a way out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, trace_forward
from mha_core.blockwise import Overview
from mha_core.maps import head_maps, pool
from pages.shared import atlas_long, long_runs, maps_section
from pages.shared.atlas import Asked
from tests.pages.maps_page import compared, computing, focus, new_page, open_page, settle, tiles
from tests.pages.support import click, open_app, run, said, set_state

SIZES: dict[str, Any] = {"batch": 2, "time": 130, "d_model": 32, "heads": 4, "causal": 1}


@pytest.fixture(autouse=True)
def _everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_runs, "_WHOLE", 0)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Overviews that take until they are let go; the list tells what became of them."""
    seen: list[str] = []
    real = atlas_long.Long.overview

    def overview(
        self: atlas_long.Long, asked: Asked, progress: Callable[[float], None] | None = None
    ) -> Overview:
        assert progress is not None
        seen.append(f"began {self.time}")
        try:
            for _ in range(600):
                progress(0.25)
                if "go" in seen:
                    return real(self, asked, progress)
                time.sleep(0.01)
        except BaseException:
            seen.append(f"ended {self.time}")
            raise
        raise AssertionError("nobody let it go")

    monkeypatch.setattr(atlas_long.Long, "overview", overview)
    monkeypatch.setattr(maps_section, "_PATIENCE", 0.05)
    return seen


def config(**changes: Any) -> MHAConfig:
    return MHAConfig(**(SIZES | {"causal": True} | changes))


def close(shown: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.allclose(shown, expected, rtol=0, atol=1e-6, equal_nan=True))


def until(seen: list[str], what: str) -> None:
    for _ in range(500):
        if what in seen:
            return
        time.sleep(0.01)
    raise AssertionError(f"{what} is not in {seen}")


@pytest.mark.parametrize("item", [0, 1])
@pytest.mark.parametrize("how", ["max", "mean"])
def test_they_are_the_maps_of_the_run(item: int, how: Any) -> None:
    at = open_page(**SIZES)
    at = settle(set_state(at, w_item=item, w_pooling=how))
    expected = pool(head_maps(trace_forward(config()), item=item), 96, how).values[0]
    assert close(focus(at), expected)
    assert "block by block" in " ".join(one.value for one in at.get("html"))


def test_a_window_is_exact() -> None:
    at = open_page(**SIZES)
    at.text_input(key="w_queries").set_value("90–129")
    at.text_input(key="w_keys").set_value("0–60")
    expected = trace_forward(config()).weights[0, 0, 90:130, :61].numpy()
    assert close(focus(settle(at)), expected)


def test_causal_against_full_and_scores() -> None:
    at = open_page(**SIZES)
    at.selectbox(key="w_compare").set_value("causal against full")
    at = settle(at)
    full = pool(head_maps(trace_forward(config(causal=False))), 96).values[0]
    assert close(compared(at)[1], full)
    for what in ("before the mask", "scores", "another head"):
        at.selectbox(key="w_compare").set_value(what)
        assert not settle(at).error


def test_the_statistics_are_those_of_the_run() -> None:
    at = open_page(**SIZES)
    at.selectbox(key="w_order").set_value("distance")
    long = tiles(settle(at))
    assert len(long) == 4
    assert all(said.endswith("apart") for _, said in long)


def test_progress_and_then_the_maps(slow: list[str]) -> None:
    at = run(new_page(**SIZES, seed=11))
    until(slow, "began 130")
    assert computing(at)
    slow.append("go")
    assert focus(settle(at)).shape == (65, 65)


def then(slow: list[str], seed: int, key: str, value: int) -> tuple[AppTest, NDArray[np.float32]]:
    """The page while a change of a control is being computed, and the focus before it."""
    slow.append("go")
    at = open_page(**SIZES, seed=seed)
    before = focus(at)
    slow.clear()
    at.number_input(key=key).set_value(value)
    run(at)
    assert computing(at)
    return at, before


def test_cancel_leaves_the_last_maps(slow: list[str]) -> None:
    at, before = then(slow, 13, "w_time#exact", 140)
    assert np.array_equal(focus(at), before, equal_nan=True)
    click(at, "Cancel")
    until(slow, "ended 140")
    run(at)
    assert "Cancelled" in said(at)
    assert np.array_equal(focus(at), before, equal_nan=True)
    slow.append("go")
    click(at, "Compute")
    assert focus(settle(at)).shape == (70, 70)


def test_a_second_change_replaces_the_first(slow: list[str]) -> None:
    at = run(new_page(**SIZES, seed=12))
    until(slow, "began 130")
    for size in (131, 132):
        at.number_input(key="w_time#exact").set_value(size)
        run(at)
        until(slow, f"began {size}")
    until(slow, "ended 130")
    until(slow, "ended 131")
    slow.append("go")
    assert focus(settle(at)).shape == (66, 66)
    assert "ended 132" not in slow


def test_maps_that_are_there_already_replace_those_being_computed(slow: list[str]) -> None:
    at, before = then(slow, 14, "w_item", 1)
    at.number_input(key="w_item").set_value(0)
    run(at)
    until(slow, "ended 130")
    assert not computing(run(at))
    assert np.array_equal(focus(at), before, equal_nan=True)


def test_a_fault_of_ours_ends_the_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    def overview(*_: Any, **__: Any) -> Overview:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(atlas_long.Long, "overview", overview)
    at = new_page(**SIZES, seed=15).run()
    (told,) = at.exception
    assert "encountered an error" in told.value
    assert not computing(at)


def test_over_the_budget_is_refused_with_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    at = open_page(**SIZES)
    before = focus(at)
    monkeypatch.setattr("mha_core.blockwise.project.default_limit", lambda _: 135 * 2**20)
    at.number_input(key="w_time#exact").set_value(32_768)
    at = settle(at)
    assert "over the limit of 135.0 MiB" in said(at)
    assert "The largest time that fits is" in said(at)
    assert np.array_equal(focus(at), before, equal_nan=True)
    (fits,) = [button for button in at.button if button.label.startswith("Set time")]
    fits.click()
    assert not settle(at).error


def test_a_long_time_is_not_for_the_home_page() -> None:
    at = open_app(time=4096)
    assert "must be at most 2048 where every step is kept" in said(at)
    assert "Attention heads" in said(at)
    click(at, "Set time 2048")


def test_a_fill_that_leaks_is_refused() -> None:
    at = run(new_page(**SIZES, fill=-10))
    assert "leaves weight on masked keys" in said(at)
