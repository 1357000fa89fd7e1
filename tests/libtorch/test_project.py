"""The project in the ZIP: complete, the same each time, and it builds and checks itself."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mha_core import ConfigError, MHAConfig, trace_forward
from mha_core.libtorch import build, project
from tests.core.support import randn
from tests.libtorch.support import command, same_bits

CONFIG = MHAConfig(time=7, d_model=24, heads=3, causal=True, seed=8)


def unpacked(data: bytes, folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    return folder / project.NAME


def test_everything_is_in_it(tmp_path: Path) -> None:
    trace = trace_forward(CONFIG, profile=False)
    folder = unpacked(project.project(trace), tmp_path)
    sources = {path.name for path in build.SOURCES.iterdir() if path.suffix in (".h", ".cpp")}
    others = {"CMakeLists.txt", "README.md", "parity.cmake", "case.safetensors"}
    assert {path.name for path in folder.iterdir()} == sources | others | {"expected.safetensors"}
    case, expected = (load_file(folder / f"{name}.safetensors") for name in ("case", "expected"))
    assert same_bits(case["x"], trace.x)
    assert same_bits(case["W_o.weight"], trace.module.W_o.weight.detach())
    assert expected.keys() == {step.id for step in trace.steps}
    assert all(same_bits(expected[step.id], trace.tensor(step.id)) for step in trace.steps)
    tensors = sum(tensor.nbytes for tensor in (*case.values(), *expected.values()))
    assert project.project_bytes(trace) == pytest.approx(tensors, abs=64)


def test_the_same_run_gives_the_same_file() -> None:
    one, other = (project.project(trace_forward(CONFIG, profile=False)) for _ in range(2))
    assert one == other


def test_too_large_a_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "LIMIT", 20_000)
    with pytest.raises(ConfigError, match=r"over the limit of 19\.5 KiB"):
        project.project(trace_forward(CONFIG, profile=False))


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        MHAConfig(bias=False, dtype="float64", scale=0.5),
        MHAConfig(causal=True, fill=-1e9, dropout=0.4),
        MHAConfig(dtype="float16"),
    ],
    ids=["causal", "float64", "dropout", "half"],
)
def test_its_check_passes_and_can_fail(program: Path, tmp_path: Path, config: MHAConfig) -> None:
    trace = trace_forward(config, mask=randn(config.time, config.time) > -2, profile=False)
    folder = unpacked(project.project(trace), tmp_path)
    case, expected = folder / "case.safetensors", folder / "expected.safetensors"
    (tolerance,) = re.findall(r"set\(TOLERANCE (\S+) ", (folder / "parity.cmake").read_text())

    def check() -> int:
        done = command(program, "check", str(case), str(expected), "--tolerance", tolerance)
        return done.returncode

    assert check() == 0
    changed = load_file(case)
    changed["W_v.weight"] = changed["W_v.weight"] * 1.5
    save_file(changed, case)
    assert check() == 1


def with_cuda(folder: Path) -> Path:
    """A LibTorch unpacked elsewhere that was built for CUDA, on a machine without its toolkit."""
    torch_folder = Path(torch.__file__).parent
    (folder / "lib").mkdir(parents=True)
    for name in ("include", "share"):
        (folder / name).symlink_to(torch_folder / name)
    for path in (torch_folder / "lib").iterdir():
        (folder / "lib" / path.name).symlink_to(path)
    (folder / "lib" / "libtorch_cuda.so").touch()
    return folder


def tool(name: str, *arguments: str, folder: Path, **environment: str) -> str:
    cmake = Path(str(build._cmake()))
    path = f"{cmake.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [name, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": path, "CXX": build._compiler()[1]} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


@pytest.mark.usefixtures("program")
def test_it_builds_and_passes(tmp_path: Path) -> None:
    """As its README says, on a folder with nothing else in it."""
    folder = unpacked(project.project(trace_forward(CONFIG, profile=False)), tmp_path)
    commands = re.findall(
        r"^(cmake|ctest)(.*?)(?: +#.*)?$", (folder / "README.md").read_text(), re.MULTILINE
    )
    assert [name for name, _ in commands] == ["cmake", "cmake", "ctest"]
    elsewhere = with_cuda(tmp_path / "libtorch")
    said = ""
    for (name, rest), more in zip(
        commands, ([f"-DCMAKE_PREFIX_PATH={elsewhere}"], [], []), strict=True
    ):
        said = tool(name, *rest.split(), *more, folder=folder)
        assert not re.search(r"\.(h|cpp):\d+:\d+: warning", said)
    assert "100% tests passed, 0 tests failed out of 1" in said


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("prefix", ["", "/opt/nowhere:/usr"], ids=["unset", "of something else"])
def test_it_finds_the_torch_of_python(tmp_path: Path, prefix: str) -> None:
    tool(
        "cmake", "-S", str(build.SOURCES), "-B", ".", f"-DPython={sys.executable}",
        folder=tmp_path, CMAKE_PREFIX_PATH=prefix,
    )  # fmt: skip
    cache = (tmp_path / "CMakeCache.txt").read_text()
    assert f"Torch_DIR:PATH={torch.utils.cmake_prefix_path}/Torch\n" in cache


def test_the_use_in_cpp_names_what_is_not_the_default() -> None:
    assert project.usage(MHAConfig()) == (
        "mha::MultiHeadAttention attention(mha::MultiHeadAttentionOptions(32, 4));\n"
        "const auto y = attention(x);  // (2, 6, 32), as x"
    )
    used = project.usage(
        MHAConfig(bias=False, causal=True, dropout=0.1, scale=0.3, fill=-1e9, dtype="bfloat16"),
        mask=True,
    )
    assert "MultiHeadAttentionOptions(32, 4).bias(false).dropout(0.1).scale(0.3)" in used
    assert ".fill(-1000000000.0).dtype(torch::kBFloat16));" in used
    assert "MultiHeadAttentionForwardOptions().causal(true).mask(keep));" in used
