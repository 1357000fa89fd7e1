"""What may not happen on any page: an error in the console or on the page, a traceback, a log line,
a request to another host."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Error, Page, Request

# Lines of the server's log that are no complaint: where it can be reached.
_WELCOME = re.compile(
    r"You can now view|URL: http|Uvicorn server started|Did not auto detect|for debugging hints"
    r"|Stopping\.\.\."
)

# Nor is this: a fragment that is drawn every so often had its turn once more after the page was
# drawn without it.
_LATE = re.compile(
    r"The fragment with id \w+ does not exist anymore|Couldn't find fragment with id"
)


class Watch:
    """Listens to pages and to the server's log, from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._from = log.stat().st_size
        self._heard: list[str] = []
        self._pages: list[Page] = []

    def page(self, page: Page) -> None:
        """Listens to a page."""
        self._pages.append(page)
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("requestfailed", self._failed)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._heard.append(f"console {message.type}: {message.text}")

    def _error(self, error: Error) -> None:
        self._heard.append(f"uncaught: {error}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left while it was loading
            self._heard.append(f"request failed: {request.url} {request.failure}")

    def _request(self, request: Request) -> None:
        host = urlsplit(request.url).hostname  # None for a file and for data
        if host not in (None, "127.0.0.1") and not request.url.startswith("blob:"):
            self._heard.append(f"asked another host: {request.url}")

    def complaints(self) -> list[str]:
        """Everything heard, what stands on the pages now, and what the server wrote."""
        found = list(self._heard)
        for page in self._pages:
            shown = page.get_by_test_id("stException").all_inner_texts()
            found += [f"on the page: {text}" for text in shown]
            if "Traceback" in page.content():
                found.append("a traceback on the page")
        written = self._log.read_bytes()[self._from :].decode(errors="replace").splitlines()
        lines = [
            line
            for line in written
            if line.strip() and not (_WELCOME.search(line) or _LATE.search(line))
        ]
        return found + [f"server log: {line}" for line in lines]
