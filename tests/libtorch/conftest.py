"""The program, built once a session and only when something changed, and a server of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mha_core.libtorch import build
from tests.libtorch.compiler import LEAVE_OUT, left_out
from tests.libtorch.support import Server


@pytest.fixture(scope="session")
def program() -> Path:
    if left_out():
        pytest.skip(f"left out: {LEAVE_OUT} is set")
    try:
        return build.program()
    except build.BuildError as error:
        message = f"The C++ module cannot be built: {error}\n{LEAVE_OUT}=1 leaves these tests out."
    pytest.fail(message, pytrace=False)


@pytest.fixture(scope="session")
def server(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(program, tmp_path_factory.mktemp("libtorch"))
    yield running
    running.close()
