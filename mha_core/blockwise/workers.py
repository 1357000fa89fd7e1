"""Threads that share the blocks: each computes its own alone, in its own part of the cache."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import torch
from torch import Tensor

_scratch = threading.local()


@cache
def _pool() -> ThreadPoolExecutor:
    """As many threads as torch would use for one operator, each of which uses one.

    An operator on a block of a megabyte is done before a second thread has woken.
    """
    count = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, "maps", initializer=torch.set_num_threads, initargs=(1,))
    started = threading.Barrier(count + 1)
    for _ in range(count):
        pool.submit(started.wait)
    started.wait()
    # Each thread has its own number; the last one set is what threads to come begin with.
    torch.set_num_threads(count)
    return pool


def in_blocks(
    work: Callable[[Any], Any], blocks: Iterable[Any], done: Callable[[Any], None], *, alone: bool
) -> None:
    """Runs `work` on every block, and `done` on what it returns, in this thread.

    Args:
        alone: in this thread, for a device that has one queue anyway.

    Raises:
        Whatever `work` or `done` raises; blocks that have not begun are given up.
    """
    if alone:
        for block in blocks:
            done(work(block))
        return
    pool = _pool()
    pending = iter(blocks)
    running: set[Future[Any]] = set()
    try:
        while True:
            # A few ahead, so that no thread waits, and few to wait for when it is given up.
            while len(running) < 2 * torch.get_num_threads():
                block = next(pending, None)
                if block is None:
                    break
                running.add(pool.submit(work, block))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for one in ended:
                done(one.result())
    finally:
        for one in running:
            one.cancel()
        wait(running)


def scratch(rows: int, columns: int, like: Tensor, *, second: bool = False) -> Tensor:
    """(rows, columns) to write in, one of two of this thread: new memory costs too much."""
    need = rows * columns
    key = (like.dtype, like.device, second)
    kept: dict[Any, Tensor] = _scratch.__dict__.setdefault("kept", {})
    if key not in kept or kept[key].numel() < need:
        kept[key] = torch.empty(need, dtype=like.dtype, device=like.device)
    return kept[key][:need].view(rows, columns)
