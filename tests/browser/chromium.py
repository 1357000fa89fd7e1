"""Which Chromium the tests drive, how it is started, and how one is got where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from playwright.sync_api import Error, sync_playwright


def chromium_path() -> str | None:
    """A Chromium already on the machine; None for the one Playwright downloads."""
    named = os.environ.get("CHROMIUM")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return named or next((path for path in found if path), None)


def chromium_arguments() -> list[str]:
    """Quiet and headless, also as root in a container."""
    return [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ]  # fmt: skip


def _starts() -> bool:
    try:
        with sync_playwright() as play:
            play.chromium.launch(executable_path=chromium_path(), args=chromium_arguments()).close()
    except Error:
        return False
    return True


def _try(command: list[str]) -> None:
    print("$", " ".join(command), flush=True)
    subprocess.run(command, check=False)


def install() -> int:
    """Gets a Chromium by the first way that works; the exit status."""
    if _starts():
        return 0
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo"]
        _try([*root, "apt-get", "update", "-qq"])
        _try([*root, "apt-get", "install", "-y", "-qq", "chromium", "fonts-dejavu-core"])
        if _starts():
            return 0
    _try([sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"])
    if _starts():
        return 0
    print("No Chromium could be got; set CHROMIUM to the path of one.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(install())
