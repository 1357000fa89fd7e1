"""The run in view, in C++ and in Python: every step of it, and what is said where they part."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from torch import Tensor

from mha_core import ConfigError, MHAConfig, Trace, trace_forward
from mha_core.libtorch import build, compare, running
from mha_core.libtorch.case import case_of, check_bytes, run_case
from tests.core.support import randn
from tests.libtorch.support import runs, same_bits


@settings(max_examples=25)
@given(run=runs())
def test_a_case_gives_what_the_run_gave(run: tuple[MHAConfig, Tensor | None]) -> None:
    config, mask = run
    trace = trace_forward(config, mask=mask, profile=False)
    found = run_case(case_of(trace))
    assert list(found) == [step.id for step in trace.steps]
    assert all(same_bits(found[step.id], trace.tensor(step.id)) for step in trace.steps)


@pytest.mark.parametrize(
    "config",
    [
        MHAConfig(),
        MHAConfig(batch=1, time=9, d_model=21, heads=3, causal=True, bias=False, dtype="float64"),
        MHAConfig(causal=True, fill=-1e9, scale=0.25, dropout=0.3, seed=4),
        MHAConfig(dtype="bfloat16", causal=True),
    ],
    ids=["default", "causal", "dropout", "half"],
)
@pytest.mark.usefixtures("program")
def test_cpp_gives_every_bit(config: MHAConfig) -> None:
    trace = trace_forward(config, profile=False)
    told: list[float] = []
    found = list(compare.compare(trace, lambda done, _: told.append(done)))
    assert [one.step for one in found] == [step.id for step in trace.steps]
    for one in found:
        assert one.equal, one
        assert one.largest == 0.0
        assert one.shape == one.python_shape == trace[one.step].shape
    assert told == sorted(told)
    rows = list(csv.DictReader(io.StringIO(compare.csv(found))))
    assert [row["step"] for row in rows] == [one.step for one in found]
    assert {(row["largest"], row["equal"]) for row in rows} == {("0.0", "True")}


@pytest.mark.usefixtures("program")
def test_with_a_mask() -> None:
    trace = trace_forward(MHAConfig(), mask=randn(6, 6, seed=3) > 0, profile=False)
    assert "mask" in trace
    assert all(one.equal for one in compare.compare(trace))


@pytest.mark.usefixtures("program")
def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_forward(MHAConfig(causal=True), profile=False)

    def other(case: dict[str, Tensor]) -> dict[str, Tensor]:
        found = run_case(case)
        found["softmax"][0, 1, 2, 1] += 0.125
        found["merge"] = found["merge"][:, :3]
        return found

    monkeypatch.setattr(compare, "run_case", other)
    found = {one.step: one for one in compare.compare(trace)}
    assert not found["softmax"].equal
    assert found["softmax"].largest == pytest.approx(0.125, abs=1e-7)
    assert math.isnan(found["merge"].largest)
    assert found["merge"].shape == (2, 6, 32)
    assert found["merge"].python_shape == (2, 3, 32)
    assert all(one.equal for step, one in found.items() if step not in ("softmax", "merge"))


def test_where_nothing_can_be_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "_compiler", lambda: ("", ""))
    with pytest.raises(ConfigError, match="no C\\+\\+ compiler: install g\\+\\+"):
        list(compare.compare(trace_forward(MHAConfig(), profile=False)))


def test_a_program_that_dies_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.write_text("#!/bin/sh\necho no such device >&2\nexit 3\n")
    dead.chmod(0o755)
    monkeypatch.setattr(build, "program", lambda _report: dead)
    with pytest.raises(ConfigError, match="no such device"):
        list(compare.compare(trace_forward(MHAConfig(), profile=False)))


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_too_large_is_refused_with_what_fits(causal: bool) -> None:
    def at(time: int) -> Trace:
        return trace_forward(MHAConfig(batch=1, time=time, causal=causal), profile=False)

    trace = at(200)
    made = sum(tensor.nbytes for tensor in run_case(case_of(trace)).values())
    given_bytes = sum(case_of(trace)[name].nbytes for name in ("x", "W_q.weight", "W_q.bias"))
    assert made < check_bytes(trace, 2**30) < made + 4 * given_bytes
    with pytest.raises(ConfigError, match="The largest time that fits is") as error:
        check_bytes(trace, 1_000_000)
    (repair,) = error.value.repairs
    check_bytes(at(repair["time"]), 1_000_000)
    with pytest.raises(ConfigError):
        check_bytes(at(repair["time"] + 1), 1_000_000)


class Enough(Exception):
    pass


def test_a_cancelled_build_leaves_nothing_half_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What `report` raises ends the compiler; files it was writing look finished, and go."""
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    processes: list[running.subprocess.Popen[str]] = []
    popen = running.subprocess.Popen
    half = f"echo '[ 40%] Building x.cpp.o'; echo half > {tmp_path}/x.cpp.o; sleep 600 & wait"

    def started(_command: object, **how: Any) -> object:
        processes.append(popen(["sh", "-c", half], **how))
        return processes[-1]

    monkeypatch.setattr(running.subprocess, "Popen", started)
    told: list[tuple[float, str]] = []

    def report(done: float, what: str) -> None:
        told.append((done, what))
        if told.count((0.4, "compiling x.cpp")) > 1:
            assert (tmp_path / "x.cpp.o").exists()
            raise Enough

    with pytest.raises(Enough):
        build.program(report)
    assert processes[0].wait(10) != 0
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert not build.built()


def test_the_compilers_first_error_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(x CXX)\nadd_executable(x x.cpp)\n"
    )
    (sources / "x.cpp").write_text("int main() { return nothing; }\n")
    monkeypatch.setattr(build, "SOURCES", sources)
    monkeypatch.setattr(build, "FOLDER", tmp_path / "build")
    with pytest.raises(ConfigError) as error:
        list(compare.compare(trace_forward(MHAConfig(), profile=False)))
    assert "x.cpp:1:21: error:" in str(error.value)
    assert "nothing" in str(error.value)
    assert (tmp_path / "build" / build.LOG).exists()


def test_a_folder_that_cannot_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(build, "FOLDER", tmp_path / "file" / "build")
    with pytest.raises(ConfigError, match="cannot be written"):
        list(compare.compare(trace_forward(MHAConfig(), profile=False)))


def test_what_was_built_is_used_where_no_compiler_is(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_compiler", lambda: ("", ""))
    assert build.missing() is not None
    assert build.built()
    assert build.program() == program


@pytest.mark.parametrize(
    ("named", "launcher", "compiler"),
    [("", "", "c++"), ("c++", "", "c++"), ("sh c++", "sh", "c++"), ("c++ -m64", "", "c++"),
     ("no-such-compiler", "", "")],
)  # fmt: skip
def test_the_compiler_that_cxx_names(
    monkeypatch: pytest.MonkeyPatch, named: str, launcher: str, compiler: str
) -> None:
    monkeypatch.setenv("CXX", named)
    found = [Path(path).name if path else "" for path in build._compiler()]
    assert found == [launcher, compiler]
