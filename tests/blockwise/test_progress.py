"""Progress, giving up, and what other work notices of the threads."""

from __future__ import annotations

import threading

import pytest
import torch

from mha_core.blockwise import LongMaps, overview
from mha_core.blockwise.workers import in_blocks, scratch

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture
def long() -> LongMaps:
    generator = torch.Generator().manual_seed(1)
    q, k = (torch.randn(3, 80, 4, generator=generator) for _ in "qk")
    return LongMaps(q, k, None, causal=True)


def test_it_only_grows_and_ends_at_one(long: LongMaps) -> None:
    told: list[float] = []
    overview(long, 8, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    assert len(told) > 20


def test_what_progress_raises_ends_the_work(long: LongMaps) -> None:
    class Enough(Exception):
        pass

    told = []

    def stop(share: float) -> None:
        told.append(share)
        if share > 0.3:
            raise Enough

    with pytest.raises(Enough):
        overview(long, 8, progress=stop)
    assert told[-1] < 0.6
    # And the threads are free for the next.
    assert overview(long, 8).stats is not None


def test_what_a_block_raises_is_raised() -> None:
    def work(block: int) -> int:
        if block == 3:
            raise ZeroDivisionError
        return block

    with pytest.raises(ZeroDivisionError):
        in_blocks(work, range(50), lambda _: None, alone=False)


@pytest.mark.parametrize("alone", [False, True])
def test_every_block_is_done_once(alone: bool) -> None:
    done: list[int] = []
    in_blocks(lambda block: block * 2, range(40), done.append, alone=alone)
    assert sorted(done) == [2 * n for n in range(40)]


def test_torch_keeps_its_number_of_threads(long: LongMaps) -> None:
    before = torch.get_num_threads()
    overview(long, 8)
    found = []
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert torch.get_num_threads() == before
    assert found == [before]


def test_two_at_once_do_not_mix(long: LongMaps) -> None:
    """Scratch memory is a thread's own."""
    expected = overview(long, 8).pooled.values
    found = []

    def run() -> None:
        found.append(overview(long, 8).pooled.values)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 4
    assert all(_equal(one, expected) for one in found)


def _equal(a: object, b: object) -> bool:
    return bool(torch.equal(torch.tensor(a).nan_to_num(-1), torch.tensor(b).nan_to_num(-1)))


def test_scratch_is_reused_and_grows() -> None:
    like = torch.ones(1)
    first = scratch(3, 4, like)
    assert first.data_ptr() == scratch(4, 3, like).data_ptr()
    assert first.data_ptr() != scratch(3, 4, like, second=True).data_ptr()
    assert scratch(100, 1000, like).shape == (100, 1000)
    assert scratch(2, 2, like.double()).dtype is torch.float64
