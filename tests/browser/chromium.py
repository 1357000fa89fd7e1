"""Which Chromium the tests drive, and how it is started."""

from __future__ import annotations

import os
import shutil


def chromium_path() -> str | None:
    """A Chromium already on the machine; None for the one Playwright downloaded."""
    named = os.environ.get("CHROMIUM")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return named or next((path for path in found if path), None)


def chromium_arguments() -> list[str]:
    """Quiet and headless, also as root in a container."""
    return [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ]  # fmt: skip
