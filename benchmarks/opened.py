"""Opening a page in Chromium, its arrival timed; scripts of the web answered from this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route

VIEWPORT: Any = {"width": 1440, "height": 900}

# Runs before a page's own scripts. Its clock starts as the navigation does.
_ARRIVAL = """
window.__painted = new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error("not painted after %d s")), %d);
  const look = () => {
    const there = (%s).every(Boolean);
    // Seen in this frame: painted by the next.
    requestAnimationFrame(there ? () => resolve(performance.now()) : look);
  };
  requestAnimationFrame(look);
});
"""

# Asked of the web by bertviz's pages -> the package and file that carry it.
_SCRIPTS = {
    "require.min.js": ("nbclassic", "static/components/requirejs/require.js"),
    "jquery.min.js": ("nbclassic", "static/components/jquery/dist/jquery.min.js"),
    "d3.min.js": ("mpld3", "js/d3.v5.min.js"),
}


def package(name: str) -> Path:
    """Where an installed package is; it is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is missing: pip install --no-deps -r requirements-bench.txt")
    return Path(spec.origin).parent


def arrive(page: Page, address: str, probe: str, limit: int = 120) -> float:
    """Milliseconds from the start of the navigation until all that `probe` lists is painted.

    Args:
        page: a fresh one.
        address: what it opens.
        probe: a JavaScript array, all of it truthy once the page is ready.
        limit: seconds after which it is given up.
    """
    page.add_init_script(_ARRIVAL % (limit, 1000 * limit, probe))
    page.goto(address, wait_until="commit")
    return float(page.evaluate("window.__painted"))


def bertviz_scripts() -> Callable[[Route], None]:
    """Answers what a page of bertviz asks the web for, from packages on this machine."""
    scripts = {name: package(of) / path for name, (of, path) in _SCRIPTS.items()}
    return lambda route: route.fulfill(path=scripts[route.request.url.rsplit("/", 1)[-1]])
