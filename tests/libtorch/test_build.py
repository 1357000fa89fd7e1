"""The build: without warnings, once, and plain words where it cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mha_core import ConfigError, MultiHeadAttention
from mha_core.libtorch import build
from mha_core.steps import STEPS
from tests.libtorch import compiler
from tests.libtorch.support import command


def test_no_warnings_on_our_files(program: Path) -> None:
    """What the compiler said of each file when it last compiled it."""
    log = (program.parent / build.LOG).read_text(encoding="utf-8")
    for source in build.SOURCES.glob("*.cpp"):
        built = f"{source.name}.o"
        assert f"/{built}" in log, f"{built} was never compiled"
    ours = "|".join(re.escape(path.name) for path in build.SOURCES.glob("*.[hc]*"))
    assert not re.search(rf"/({ours}):\d+:\d+: warning", log)
    flags = (program.parent / "CMakeFiles/multi_head_attention.dir/flags.make").read_text()
    assert "-Wall -Wextra -Wpedantic" in flags


def test_the_example_runs(program: Path) -> None:
    """Options, mask, observer, Sequential and clone, as a user of LibTorch writes them."""
    done = command(program.with_name("mha_example"))
    assert done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "mha::MultiHeadAttention(d_model=32, heads=4, bias=true, dropout=0.1)("
    observed = [line.split()[0] for line in lines[6:-3]]
    assert observed == [step for step in STEPS if step != "dropout"]
    with pytest.raises(ConfigError) as error:
        MultiHeadAttention(30, 4)
    assert lines[-3:] == ["original 0", "copy differs true", str(error.value)]


def test_it_is_built_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_run", lambda *_, **__: pytest.fail("built again"))
    assert build.program() == program


def test_it_is_built_again_when_a_source_changes(
    program: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[str] = []
    for source in build.SOURCES.iterdir():
        if source.is_file():
            (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(build, "_run", lambda *command, **_: commands.append(" ".join(command)))
    build.program()
    (tmp_path / "build" / build.PROGRAM).write_bytes(program.read_bytes()[:1])
    assert len(commands) == 2
    build.program()
    assert len(commands) == 2
    (tmp_path / "masks.cpp").write_text("// another\n")
    build.program()
    assert len(commands) == 4


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match=r"no C\+\+ compiler: install g\+\+"):
        build.program()


def test_what_a_newcomer_without_a_compiler_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(compiler.LEAVE_OUT, raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert compiler.install() == 1
    assert "make test MHA_NO_LIBTORCH=1" in capsys.readouterr().err
    monkeypatch.setenv(compiler.LEAVE_OUT, "1")
    assert compiler.install() == 0
