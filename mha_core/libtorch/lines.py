"""What runs at each step, in Python and in C++: read from the two sources, not written beside them.

A step is where its source says `see("id", ...)`; what it calls there of these files, a function or
a method of Fill, comes with it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass
from functools import cache

from mha_core import attention, masks
from mha_core.libtorch.build import SOURCES

CPP, MASKS = "multi_head_attention.cpp", "masks.cpp"


@dataclass(frozen=True)
class Lines:
    """The code of one step in one language.

    Attributes:
        statement: as it stands in forward or attend.
        helpers: (name, body) of the functions it calls.
    """

    statement: str
    helpers: tuple[tuple[str, str], ...]


@cache
def python_lines() -> dict[str, Lines]:
    """Of every step, from mha_core/attention.py."""
    source = inspect.getsource(attention)
    tree = ast.parse(source)
    functions = _python_functions(source, tree) | _python_functions(
        fill := inspect.getsource(masks.Fill), ast.parse(fill).body[0], "filling."
    )
    found = {}
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        named = {ast.unparse(call.func): call for call in calls}
        step = named["see"].args[0] if "see" in named else None
        if isinstance(step, ast.Constant):
            helpers = tuple((name, functions[name]) for name in named if name in functions)
            found[str(step.value)] = Lines(_segment(source, statement), helpers)
    return found


def _python_functions(source: str, within: ast.AST, before: str = "") -> dict[str, str]:
    """Name and body, without its docstring, of each function."""
    return {
        f"{before}{node.name}": "\n".join(_segment(source, one) for one in node.body[1:])
        for node in ast.iter_child_nodes(within)
        if isinstance(node, ast.FunctionDef)
    }


def _segment(source: str, node: ast.stmt) -> str:
    """A statement at the left margin; lines after the first keep their distance to it."""
    text = ast.get_source_segment(source, node, padded=True) or ""
    return textwrap.dedent(text).strip()


@cache
def cpp_lines() -> dict[str, Lines]:
    """Of every step, from multi_head_attention.cpp."""
    code = _cpp_code(CPP)
    functions = _cpp_functions(code, r"(\w+)")
    for name, body in _cpp_functions(_cpp_code(MASKS), r"Fill::(\w+)").items():
        functions[f"filling.{name}"] = body
    found = {}
    for mark in re.finditer(r'\bsee\(\s*"(\w+)"', code):
        start = max(code.rindex(sign, 0, mark.start()) for sign in ";{}") + 1
        statement = textwrap.dedent(code[start : code.index(";", mark.end()) + 1].strip("\n"))
        helpers = tuple(
            (name, body)
            for name, body in functions.items()
            if re.search(rf"(?<![\w.>:]){re.escape(name)}\(", statement)
        )
        found[mark[1]] = Lines(_one_margin(statement), helpers)
    return found


def _cpp_code(name: str) -> str:
    """A source without its comments."""
    source = (SOURCES / name).read_text(encoding="utf-8")
    return re.sub(r"^ *//[^\n]*\n|//[^\n]*", "", source, flags=re.MULTILINE)


def _cpp_functions(code: str, named: str) -> dict[str, str]:
    """Name and body of each function that returns a tensor."""
    pattern = rf"^torch::Tensor {named}\([^{{;]*\) (?:const )?\{{\n(.*?)^\}}"
    found = re.findall(pattern, code, flags=re.MULTILINE | re.DOTALL)
    return {name: textwrap.dedent(body).strip() for name, body in found if name != "unobserved"}


def _one_margin(statement: str) -> str:
    """The first line at the margin, the others as far from it as they were."""
    first, *rest = statement.strip().splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in rest), default=0)
    return "\n".join([first, *(f"    {line[margin:]}" for line in rest)])
