"""Fragments stand beside one another, none in another.

Streamlit clears from its queue what a fragment had sent when the fragment runs again before the
browser has it all, but not what a fragment inside had sent: the browser is then told of a place in
something that does not exist, and shows a blank page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.runtime.fragment import MemoryFragmentStorage

from pages.shared import long_runs
from tests.pages.maps_page import computing
from tests.pages.support import new_app, pieces, run, set_state

ROOT = Path(__file__).parents[2]
PAGES = ["app.py", *(f"pages/{page.name}" for page in sorted((ROOT / "pages").glob("[0-9]*.py")))]
MAPS = "pages/1_Attention_heads.py"
WITHOUT = {"pages/6_Scaling.py", "pages/8_LibTorch.py"}  # no fragment at all
EXPANDERS = (
    "w_export", "w_maps_export", "w_memory_export", "w_mistakes_export", "w_mk_export", "rp_export",
    "w_code", "w_stats", "w_mk_numbers", "w_scaling_time_export", "w_spread_export",
    "w_projections_export",
)  # fmt: skip


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The fragment around each that is called; None where there is none."""
    around: list[str | None] = []
    real = MemoryFragmentStorage.register

    def register(self: MemoryFragmentStorage, key: str, fragment: Any, **about: Any) -> None:
        around.append(about["parent_fragment_id"])
        real(self, key, fragment, **about)

    monkeypatch.setattr(MemoryFragmentStorage, "register", register)
    return around


@pytest.mark.parametrize("page", PAGES)
def test_no_fragment_is_in_another(page: str, registered: list[str | None]) -> None:
    at = new_app(time=130)
    if page != "app.py":
        at.switch_page(page)
    set_state(run(at), **dict.fromkeys(EXPANDERS, True))
    if page == MAPS:
        at.button(key="w_long_prepare").click()
        run(at)
        assert 'class="long-file"' in " ".join(pieces(at))
    assert registered or page in WITHOUT
    assert set(registered) <= {None}


def test_nor_is_one_while_maps_are_computed(
    registered: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_runs, "_WHOLE", 0)
    monkeypatch.setattr("pages.shared.maps_section._PATIENCE", 0.0)
    at = new_app(time=1500, seed=17)
    at.switch_page(MAPS)
    run(at)
    assert computing(at)
    assert registered
    assert set(registered) == {None}
