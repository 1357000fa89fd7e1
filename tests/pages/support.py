"""What the page tests share: the app as AppTest runs it, and what its HTML shows."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig

APP = str(Path(__file__).parents[2] / "app.py")
SIZES = ("batch", "time", "d_model", "heads")


def new_app(**query: str | int) -> AppTest:
    """A session that has not run yet, at an address."""
    at = AppTest.from_file(APP, default_timeout=120)
    for name, value in query.items():
        at.query_params[name] = str(value)
    return at


def run(at: AppTest) -> AppTest:
    """One more run, which must not raise."""
    at.run()
    assert not at.exception, [error.value for error in at.exception]
    return at


def open_app(**query: str | int) -> AppTest:
    return run(new_app(**query))


def type_size(at: AppTest, name: str, value: int) -> AppTest:
    """A size typed beside its slider."""
    at.number_input(key=f"w_{name}#exact").set_value(value)
    return run(at)


def set_state(at: AppTest, **state: Any) -> AppTest:
    """What no widget of AppTest can do: open an expander, choose a head or a step."""
    for key, value in state.items():
        at.session_state[key] = value
    return run(at)


def config(at: AppTest) -> MHAConfig:
    """What the page shows: the last choice that could run."""
    shown: MHAConfig = at.session_state["good"].config
    return shown


def stored(at: AppTest) -> dict[str, Any]:
    """What the user asked for, whether or not it can run."""
    fields: dict[str, Any] = at.session_state["config"]
    return fields


def address(at: AppTest) -> dict[str, str]:
    """The query parameters, one value each."""
    return {
        name: value if isinstance(value, str) else value[-1]
        for name, value in at.query_params.items()
    }


def said(at: AppTest) -> str:
    """All errors, warnings and notes."""
    return "\n".join(box.value for box in (*at.error, *at.warning, *at.info))


def repairs(at: AppTest) -> list[str]:
    """Labels of the repair buttons."""
    return [button.label for button in at.button if button.label.startswith("Set ")]


def click(at: AppTest, label: str) -> AppTest:
    next(button for button in at.button if button.label == label).click()
    return run(at)


def components(at: AppTest) -> dict[str, dict[str, Any]]:
    """Key -> what the server sent to a component."""
    return {
        element.proto.id.rsplit("-", 1)[-1]: json.loads(element.proto.json or "{}")
        for element in at.get("bidi_component")
    }


def component(at: AppTest, key: str) -> dict[str, Any]:
    return components(at)[key]


def pieces(at: AppTest) -> list[str]:
    """The HTML the page shows, its clickable parts too."""
    plain = [element.value for element in at.get("html")]
    return plain + [data["html"] for data in components(at).values() if "html" in data]


def piece(at: AppTest, mark: str) -> str:
    """The one piece of HTML that has this in it."""
    found = [text for text in pieces(at) if mark in text]
    assert len(found) == 1, f"{len(found)} pieces with {mark}"
    return found[0]


def text(markup: str) -> str:
    """What a browser shows of HTML, without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def table_rows(at: AppTest) -> dict[str, dict[str, list[str]]]:
    """Step id -> class of the cell -> its lines, of the shape table."""
    table = piece(at, '<table class="shapes')
    found = {}
    for step, row in re.findall(r'<tr data-pick="(\w+)"[^>]*>(.*?)</tr>', table):
        cells = re.findall(r'<t[dh][^>]*?(?: class="(\w+)")?>(.*?)</t[dh]>', row)
        lines = [
            (kind or "plain", [text(part) for part in re.split(r"</div>(?=<div)", cell)])
            for kind, cell in cells
        ]
        found[step] = {}
        for kind, cell in lines:
            found[step].setdefault(kind, []).extend(cell)
    return found
