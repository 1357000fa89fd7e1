"""No browser paints here, so nothing need wait for one."""

from __future__ import annotations

import pytest

from pages.shared import look


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "let_paint", lambda *_: None)
