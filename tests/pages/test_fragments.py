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
from tests.pages.support import new_app, run, set_state

ROOT = Path(__file__).parents[2]
PAGES = ["app.py", *(f"pages/{page.name}" for page in sorted((ROOT / "pages").glob("[0-9]*.py")))]
EXPANDERS = (
    "w_export", "w_maps_export", "w_memory_export", "w_mistakes_export", "w_mk_export", "rp_export",
    "w_code", "w_stats", "w_mk_numbers",
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
@pytest.mark.parametrize("long", [False, True])
def test_no_fragment_is_in_another(
    page: str, long: bool, registered: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if long:  # maps with progress
        monkeypatch.setattr(long_runs, "_WHOLE", 0)
        monkeypatch.setattr("pages.shared.maps_section._PATIENCE", 0.0)
    at = new_app(time=130)
    if page != "app.py":
        at.switch_page(page)
    set_state(run(at), **dict.fromkeys(EXPANDERS, True))
    for button in at.button:
        if button.key == "w_long_prepare":
            button.click()
            run(at)
    assert set(registered) <= {None}
