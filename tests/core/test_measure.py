"""Measuring: what the allocator gave, in turn and in spread; never how fast anything is."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from mha_core.measure import (
    allocated_bytes,
    interleaved,
    machine,
    peak_bytes,
    sample,
    seconds,
)
from tests.core.support import randn


def profiled(call):
    """Peak and total by torch's other profiler."""
    with (
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded,
        torch.no_grad(),
    ):
        result = call()
    del result
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    return max(sum(sizes[: n + 1]) for n in range(len(sizes))), sum(s for s in sizes if s > 0)


def chain():
    a = torch.ones(1000, dtype=torch.float64)
    b = torch.cat([a, a])
    del a
    return b[:10].clone()


def test_peak_and_total_by_hand():
    # 8000 bytes, then 16000 beside them; 80 more once the first are gone.
    assert peak_bytes(chain, "cpu") == 24_000
    assert allocated_bytes(chain) == 24_080


def test_nothing_allocated_is_nothing():
    x = randn(3, 5)
    assert peak_bytes(lambda: x.t(), "cpu") == 0
    assert allocated_bytes(lambda: x.view(15)) == 0


def test_what_it_returns_was_in_use_to_the_end():
    assert peak_bytes(lambda: [torch.ones(10) for _ in range(5)], "cpu") == 5 * 40


def test_what_a_kernel_takes_for_itself_counts():
    q, k, v = (randn(1, 2, 128, 16, seed=n) for n in range(3))

    def fused():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    assert peak_bytes(fused, "cpu") > fused().nbytes


@pytest.mark.parametrize(
    "call", [chain, lambda: randn(31, 40) @ randn(40, 50)], ids=["chain", "product"]
)
def test_it_agrees_with_torchs_other_profiler(call):
    call()
    assert (peak_bytes(call, "cpu"), allocated_bytes(call)) == profiled(call)


def test_other_threads_do_not_count():
    stop, started = threading.Event(), threading.Event()

    def busy():
        while not stop.is_set():
            torch.ones(100_000)
            started.set()

    other = threading.Thread(target=busy)
    other.start()
    try:
        assert started.wait(30)
        assert {peak_bytes(chain, "cpu") for _ in range(20)} == {24_000}
    finally:
        stop.set()
        other.join()


def test_it_measures_in_a_thread_of_its_own():
    found = []
    thread = threading.Thread(target=lambda: found.append(peak_bytes(chain, "cpu")))
    thread.start()
    thread.join()
    assert found == [24_000]


def test_it_stops_recording_when_the_call_fails():
    def fails():
        raise KeyError("here")

    with pytest.raises(KeyError):
        peak_bytes(fails, "cpu")
    assert peak_bytes(chain, "cpu") == 24_000


def test_a_device_without_a_mark_says_so():
    with pytest.raises(NotImplementedError, match="mps"):
        peak_bytes(chain, "mps")


def test_a_sample_is_the_median_and_the_quartiles():
    made = sample([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (made.median, made.low, made.high, made.count) == (3.0, 2.0, 4.0, 5)
    alone = sample([7.0])
    assert (alone.median, alone.low, alone.high, alone.count) == (7.0, 7.0, 7.0, 1)


def test_calls_take_turns_and_each_round_begins_with_the_next():
    order = []
    times = interleaved(
        {name: lambda name=name: order.append(name) for name in "abc"},
        device="cpu", budget=1e9, rounds=(3, 4),
    )  # fmt: skip
    assert "".join(order) == "abc" + "abc" + "bca" + "cab" + "abc"  # the first, unmeasured
    assert {name: len(taken) for name, taken in times.items()} == {"a": 4, "b": 4, "c": 4}
    assert all(second >= 0 for taken in times.values() for second in taken)


def test_without_time_there_are_the_fewest_rounds():
    times = interleaved({"a": lambda: None}, device="cpu", budget=0.0, rounds=(3, 51))
    assert len(times["a"]) == 3


def test_a_report_may_end_it():
    told = []

    def report(share, what):
        told.append((share, what))
        if len(told) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        interleaved({"a": lambda: None}, device="cpu", budget=1e9, report=report)
    assert [what for _, what in told] == ["round 1", "round 2", "round 3"]
    assert all(0 <= share <= 1 for share, _ in told)


def test_seconds_are_of_the_call():
    assert seconds(lambda: None, "cpu") >= 0


def test_the_machine_is_named_with_its_threads():
    before = torch.get_num_threads()
    assert machine("cpu") == f"cpu, {before} thread{'s' if before > 1 else ''}"
    assert machine("mps") == "mps"
