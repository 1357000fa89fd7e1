"""The maps page as AppTest runs it, and what its HTML shows."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from tests.pages.support import components, piece, run, text

PAGE = str(Path(__file__).parents[2] / "pages" / "1_Attention_heads.py")


def new_page(**query: str | int) -> AppTest:
    """A session that has not run yet, at an address."""
    at = AppTest.from_file(PAGE, default_timeout=120)
    for name, value in query.items():
        at.query_params[name] = str(value)
    return at


def open_page(**query: str | int) -> AppTest:
    return settle(new_page(**query))


def settle(at: AppTest) -> AppTest:
    """Runs until no maps are being computed any more, as the page itself does."""
    run(at)
    for _ in range(200):
        if not computing(at):
            return at
        time.sleep(0.05)
        run(at)
    raise AssertionError("the maps are never done")


def computing(at: AppTest) -> bool:
    return any(button.label == "Cancel" for button in at.button)


def focus(at: AppTest) -> NDArray[np.float32]:
    """(rows, columns): the values under the pointer of the map in focus."""
    return _values(components(at)["focus"]["html"])[0]


def compared(at: AppTest) -> list[NDArray[np.float32]]:
    """The maps side by side."""
    return _values(components(at)["compare"]["html"])


def told(at: AppTest) -> dict[str, Any]:
    """What the hover says of the map in focus."""
    found = re.search(r'data-hover="([^"]*)"', components(at)["focus"]["html"])
    assert found
    hover: dict[str, Any] = json.loads(html.unescape(found[1]))
    return hover


def tiles(at: AppTest) -> list[tuple[int, str]]:
    """Head and caption of every tile, in the order shown."""
    body = piece(at, 'class="tiles"')
    return [
        (int(head), text(said))
        for head, said in re.findall(r'data-pick="(\d+)".*?<i>(.*?)</i>', body, re.S)
    ]


def _values(body: str) -> list[NDArray[np.float32]]:
    found = []
    for hover, data in re.findall(r'data-hover="([^"]*)" data-z="([^"]*)"', body):
        about = json.loads(html.unescape(hover))
        values = np.frombuffer(base64.b64decode(data), dtype="<f4")
        found.append(values.reshape(len(about["rows"]), len(about["columns"])))
    return found
