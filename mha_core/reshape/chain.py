"""A chain of steps as typed, read by a small closed grammar. Nothing is ever evaluated as code.

chain  := ["x"] { ["."] call }
call   := name "(" [ arg { "," arg } [","] ] ")"
arg    := [ name "=" ] ( number | "(" [number {"," number}] ")" | "[" … "]" )
number := as in `values.py`: 4, -1, h, h*d, d_model//h
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from mha_core.reshape.limits import MAX_STEPS
from mha_core.reshape.ops import NAMES
from mha_core.reshape.values import Item, Reader

EXAMPLE = "Steps are written as view(2, 6, 4, 8).transpose(1, 2)"


@dataclass(frozen=True)
class Argument:
    """One argument: a number, or several in brackets.

    Attributes:
        keyword: its name, where it was given by name; else "".
        items: its numbers.
        bracketed: whether they stood in brackets.
        start, end: its place in the text.
    """

    keyword: str
    items: tuple[Item, ...]
    bracketed: bool
    start: int
    end: int


@dataclass(frozen=True)
class Call:
    """One step as typed."""

    name: str
    arguments: tuple[Argument, ...]
    start: int
    end: int


def parse_chain(text: str, sizes: Mapping[str, int]) -> tuple[Call, ...]:
    """Reads a chain.

    Args:
        text: as typed.
        sizes: what names in it stand for.

    Raises:
        ReshapeError: with the place of the first mistake.
    """
    reader = Reader("chain", text, sizes)
    if reader.now.text == "x" and reader.next.text != "(":
        reader.take()
    calls: list[Call] = []
    while reader.now.kind != "end":
        reader.accept(".")
        calls.append(_call(reader))
        if len(calls) > MAX_STEPS:
            last = Item(0, "", calls[-1].start, calls[-1].end)
            raise reader.fail(
                f"more than {MAX_STEPS} steps", last, f"The first {MAX_STEPS} would work"
            )
    return tuple(calls)


def _call(reader: Reader) -> Call:
    name = reader.take()
    if name.kind != "name":
        what = "the text ends" if name.kind == "end" else f"“{name.text}” stands"
        raise reader.fail(f"{what} where a step should be", name, EXAMPLE)
    if name.text not in NAMES:
        near = get_close_matches(name.text, NAMES, 1, 0.6)
        works = f"Nearest: {near[0]}" if near else f"There are {', '.join(NAMES)}"
        raise reader.fail(f"there is no step {name.text[:30]}", name, works)
    opening = reader.accept("(")
    if opening is None:
        raise reader.fail(f"“(” should follow {name.text}", works=EXAMPLE)
    arguments: list[Argument] = []
    while reader.now.text != ")":
        if reader.now.kind == "end":
            raise reader.fail("this bracket is not closed", opening, "Put ) after the arguments")
        arguments.append(_argument(reader))
        if reader.accept(",") is None and reader.now.text != ")" and reader.now.kind != "end":
            raise reader.fail(f"“{reader.now.text}” stands where “,” or “)” should", works=EXAMPLE)
    closing = reader.take()
    return Call(name.text, tuple(arguments), name.start, closing.end)


def _argument(reader: Reader) -> Argument:
    keyword = ""
    start = reader.now.start
    if reader.now.kind == "name" and reader.next.text == "=":
        keyword = reader.take().text
        reader.take()
    opening = reader.now
    if opening.text not in ("(", "[") or _is_number(reader):
        item = reader.number()
        return Argument(keyword, (item,), False, start, item.end)
    reader.take()
    closing = ")" if opening.text == "(" else "]"
    items: list[Item] = []
    while reader.now.text != closing:
        if reader.now.kind == "end":
            raise reader.fail("this bracket is not closed", opening, f"Put {closing} after it")
        items.append(reader.number())
        if reader.accept(",") is None and reader.now.text != closing:
            raise reader.fail(f"“,” or “{closing}” should stand here", works=EXAMPLE)
    end = reader.take()
    return Argument(keyword, tuple(items), True, start, end.end)


def _is_number(reader: Reader) -> bool:
    """Whether a bracket holds one number alone, as in (h*d) or (h*d)*2: no comma before its end."""
    if reader.now.text != "(":
        return False
    depth = 0
    for token in reader.ahead():
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth == 1 and token.text == ",":
            return False
        if depth == 0:
            break
    return reader.next.text != ")"
