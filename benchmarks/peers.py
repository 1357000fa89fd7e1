"""The maps page against bertviz, circuitsvis and inspectus: bytes to the browser, time to a figure.

All are given the same weights, in turn, in one Chromium.
"""

from __future__ import annotations

import importlib
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, BrowserContext, Error, Route, sync_playwright
from torch import Tensor

from benchmarks.opened import VIEWPORT, arrive, bertviz_scripts, package
from benchmarks.page_update import ROOT, Meter, idle, open_page, serve, update
from mha_core import MHAConfig, trace_forward
from tests.browser.chromium import chromium_arguments, chromium_path

TOKENS = (64, 256, 512)
HEADS = 8
AT_MOST = 1 / 25  # of the smallest peer's bytes, at the most tokens
PORT = 8615
_LIMIT = 600  # seconds after which a figure is given up

# Our figure: its page, what of it is there when it can be seen, and the control that is moved.
PAGE = "/Attention_heads"
PICTURES = ".heads .tile img, .heads .map img"
_CONTROL = ".st-key-w_d_model input"

# All heads and the one in focus, each a picture that is there; false where one is missing.
_OURS = f"""Array.from({{ length: {HEADS + 1} }}, (_, n) => {{
  const image = document.querySelectorAll("{PICTURES}")[n];
  return Boolean(image) && image.complete && image.naturalWidth > 0 && image.src;
}})"""
# The boxes that choose heads are drawn last, after all lines.
_BERTVIZ = f"[document.querySelector('#vis > svg > g:nth-child(4)')?.childElementCount === {HEADS}]"
# A canvas a head and the large one: all of them have been painted on.
_CIRCUITSVIS = f"""Array.from({{ length: {HEADS + 1} }}, (_, n) => {{
  const canvas = document.querySelectorAll("canvas")[n];
  if (!canvas?.width || !canvas?.height) return false;
  const [x, y] = [canvas.width >> 1, canvas.height >> 1];
  return canvas.getContext("2d").getImageData(x, y, 1, 1).data[3] > 0;
}})"""
# All charts are put into the page together, once the cells of the matrix have their colours.
_INSPECTUS = "[document.querySelector('.matrix .cell:last-child')?.style.fill]"


@dataclass(frozen=True)
class Peer:
    """A library that draws attention.

    Attributes:
        package: its name, with the function in it that draws.
        build: weights (1, h, time, time) and tokens -> the HTML that a notebook is sent, and how
            many of its bytes are the library's own script, sent with every figure.
        probe: what is there once it can be seen; see `opened.arrive`.
        drawn: JavaScript that counts what it has drawn, and how many there must be for (heads,
            tokens).
        web: addresses it asks the web for, and what answers them.
    """

    package: str
    build: Callable[[Tensor, list[str]], tuple[str, int]]
    probe: str
    drawn: tuple[str, Callable[[int, int], int]]
    web: tuple[str, Callable[[Route], None]] | None = None


def _bertviz(weights: Tensor, tokens: list[str]) -> tuple[str, int]:
    view = importlib.import_module("bertviz").head_view
    return view([weights], tokens, html_action="return").data, 0


def _circuitsvis(weights: Tensor, tokens: list[str]) -> tuple[str, int]:
    # As text it is the version that fetches the script: in a notebook without the web, 1.3 MB more.
    view = importlib.import_module("circuitsvis.attention").attention_heads
    return str(view(weights[0], tokens, mask_upper_tri=False)), 0


def _inspectus(weights: Tensor, tokens: list[str]) -> tuple[str, int]:
    # Its function returns nothing: what it displays is taken instead.
    parts: list[str] = []
    with patch("IPython.display.display", lambda part: parts.append(part.data)):
        importlib.import_module("inspectus").attention(weights, tokens)
    library, figure = parts
    return library + figure, len(library.encode())


def _circuitsvis_script() -> Callable[[Route], None]:
    """The script that circuitsvis asks unpkg for, made of the one in its package."""
    script = (package("circuitsvis") / "dist/cdn/iife.js").read_text(encoding="utf-8")
    script += "\nexport const { render, AttentionHeads } = CircuitsVis;\n"
    headers = {"access-control-allow-origin": "*", "content-type": "text/javascript"}
    return lambda route: route.fulfill(body=script, headers=headers)


def _peers() -> list[Peer]:
    return [
        Peer(
            "bertviz.head_view", _bertviz, _BERTVIZ,
            ("document.getElementsByTagName('line').length", lambda h, n: h * n * n),
            ("https://cdnjs.cloudflare.com/**", bertviz_scripts()),
        ),
        Peer(
            "circuitsvis.attention_heads", _circuitsvis, _CIRCUITSVIS,
            ("document.getElementsByTagName('canvas').length", lambda h, _: h + 1),
            ("https://unpkg.com/circuitsvis@*/**", _circuitsvis_script()),
        ),
        Peer(
            "inspectus.attention", _inspectus, _INSPECTUS,
            ("document.querySelectorAll('.matrix .cell').length", lambda _, n: n * n),
        ),
    ]  # fmt: skip


def _show(browser: Browser, peer: Peer, weights: Tensor, file: Path) -> dict[str, Any]:
    """One figure of a peer: milliseconds and bytes; where it never came, what happened."""
    count = weights.shape[-1]
    tokens = [str(position) for position in range(count)]
    page = browser.new_page(viewport=VIEWPORT)
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("http*://**", refuse)
    if peer.web:
        page.route(*peer.web)
    page.bring_to_front()
    start = time.perf_counter()
    html, library = peer.build(weights, tokens)
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8">{html}', encoding="utf-8")
    built = 1e3 * (time.perf_counter() - start)
    found: dict[str, Any] = {"bytes": len(html.encode()), "library": library, "built": built}
    del html
    try:
        found["ms"] = built + arrive(page, file.as_uri(), peer.probe, _LIMIT)
        script, expected = peer.drawn
        drawn = page.evaluate(script)
        assert drawn == expected(HEADS, count), (peer.package, drawn)
        assert not asked, asked
    except Error as problem:
        found["problem"] = str(problem).splitlines()[0]
    page.context.close()
    time.sleep(2)  # millions of elements take a while to go: not in the next one's time
    return found


class Ours:
    """The maps page, open; d_model moves up, so that every run is a new one."""

    def __init__(self, browser: Browser, url: str, tokens: int) -> None:
        self._url = f"{url}{PAGE}?batch=1&time={tokens}&d_model={8 * HEADS}&heads={HEADS}"
        self._page, self._meter = open_page(browser, self._url, PICTURES, limit=_LIMIT)

    def update(self) -> dict[str, Any]:
        """Milliseconds and bytes from a key press to the figure of new weights."""
        self._page.bring_to_front()
        ms, size = update(self._page, self._meter, _CONTROL, _OURS, "ArrowRight")
        return {"ms": ms, "bytes": size}

    def config(self) -> MHAConfig:
        """What the page shows, as its address says."""
        query = parse_qs(urlsplit(self._page.url).query)
        batch, time_, d_model = (int(query[name][0]) for name in ("batch", "time", "d_model"))
        return MHAConfig(batch=batch, time=time_, d_model=d_model, heads=HEADS)

    def close(self) -> None:
        self._page.context.close()


def _open(context: BrowserContext, url: str, tokens: int, seed: int) -> dict[str, Any]:
    """A new session of a page whose scripts the browser has: milliseconds, and bytes beside them.

    Every seed is a run of its own.
    """
    page = context.new_page()
    meter = Meter(context.new_cdp_session(page))
    page.bring_to_front()
    query = f"batch=1&time={tokens}&d_model={8 * HEADS}&heads={HEADS}&seed={seed}"
    ms = arrive(page, f"{url}{PAGE}?{query}", _OURS)
    idle(page)
    found = {"ms": ms, "bytes": meter.frames}
    page.close()
    return found


def _together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians; of figures that never came, bytes alone and why."""
    figures: dict[str, Any] = {"bytes": int(statistics.median(one["bytes"] for one in found))}
    if library := max(one.get("library", 0) for one in found):
        figures["bytes of its script"] = library
    times = [one["ms"] for one in found if "ms" in one]
    if times:
        figures |= {"ms": round(statistics.median(times)), "all ms": [round(t) for t in times]}
    if built := [one["built"] for one in found if "built" in one]:
        figures["ms in Python"] = round(statistics.median(built))
    if problems := [one["problem"] for one in found if "problem" in one]:
        figures["problems"] = problems
    return figures


def _compare(
    browser: Browser, url: str, tokens: int, rounds: int, *, warm: bool, folder: Path
) -> dict[str, Any]:
    """All of them at one number of tokens, in turn."""
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    ours = Ours(browser, url, tokens)
    context = browser.new_context(viewport=VIEWPORT)
    for turn in range(rounds + 1):
        found = {"ours, update": ours.update(), "ours, opened": _open(context, url, tokens, turn)}
        if turn or warm:
            weights = trace_forward(ours.config(), keep=("softmax",)).weights
            for peer in _peers():
                found[peer.package] = _show(browser, peer, weights, folder / "figure.html")
        for label, one in found.items():
            if turn:  # the first warms them up
                seen[label].append(one)
    ours.close()
    context.close()
    figures: dict[str, Any] = {label: _together(each) for label, each in seen.items()}
    ours_bytes = figures["ours, update"]["bytes"]
    shown = [figures[peer.package] for peer in _peers()]
    whole = min(each["bytes"] for each in shown)
    bare = min(each["bytes"] - each.get("bytes of its script", 0) for each in shown)
    return figures | {
        "smallest / ours": round(whole / ours_bytes, 2),
        "smallest, script apart / ours": round(bare / ours_bytes, 2),
        "at least": 1 / AT_MOST if tokens == TOKENS[-1] else 1.0,
    }


def measure(rounds: tuple[int, ...] = (5, 3, 2)) -> dict[str, Any]:
    """Bytes and milliseconds of all, by tokens.

    Args:
        rounds: figures of each, for each of TOKENS.
    """
    names = [peer.package.split(".")[0] for peer in _peers()]
    figures: dict[str, Any] = {"versions": {name: version(name) for name in names}}
    with (
        serve(ROOT / "app.py", PORT) as url,
        sync_playwright() as play,
        tempfile.TemporaryDirectory() as folder,
    ):
        browser = play.chromium.launch(executable_path=chromium_path(), args=chromium_arguments())
        for tokens, count in zip(TOKENS, rounds, strict=False):
            figures[f"{tokens} tokens"] = _compare(
                browser, url, tokens, count, warm=tokens == TOKENS[0], folder=Path(folder)
            )
        browser.close()
    return figures
