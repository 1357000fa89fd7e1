"""Numbers as typed in a chain, a shape or sizes: 4, -1, h, h*d, d_model//h. Closed: never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.limits import MAX_DEPTH, MAX_NUMEL
from mha_core.reshape.scan import Token, scan


@dataclass(frozen=True)
class Item:
    """One number.

    Attributes:
        value: what it comes to.
        name: as typed where it has a name in it, e.g. "h*d"; else "".
        start, end: its place in the text.
    """

    value: int
    name: str
    start: int
    end: int


class Reader:
    """Reads tokens one by one; `sizes` gives the names their numbers."""

    def __init__(self, field: str, text: str, sizes: Mapping[str, int]) -> None:
        self.field = field
        self.text = text
        self.sizes = sizes
        self._tokens = scan(field, text)
        self._at = 0

    @property
    def now(self) -> Token:
        return self._tokens[self._at]

    @property
    def next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def ahead(self) -> list[Token]:
        """The tokens from the present one on."""
        return self._tokens[self._at :]

    def take(self) -> Token:
        token = self.now
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def accept(self, sign: str) -> Token | None:
        """Takes a sign if it is there."""
        return self.take() if self.now.kind == "sign" and self.now.text == sign else None

    def fail(self, rule: str, token: Token | Item | None = None, works: str = "") -> ReshapeError:
        """The error at a token, by default the present one."""
        at = token or self.now
        return ReshapeError(self.field, self.text, at.start, at.end, rule, works=works)

    def number(self, depth: int = 0) -> Item:
        """number := factor { ("*" | "//") factor }."""
        first = left = self._factor(depth)
        value = left.value
        while (sign := self.accept("*") or self.accept("//")) is not None:
            right = self._factor(depth)
            if sign.text == "*":
                value *= right.value
            elif right.value == 0 or value % right.value:
                whole = Item(value, "", first.start, right.end)
                raise self.fail(f"{value} // {right.value} leaves a remainder", whole)
            else:
                value //= right.value
            if abs(value) > MAX_NUMEL:
                whole = Item(value, "", first.start, right.end)
                raise self.fail(f"a size of {value:,} is over the limit of {MAX_NUMEL:,}", whole)
            left = right
        return Item(value, self._name(first.start, left.end), first.start, left.end)

    def _factor(self, depth: int) -> Item:
        """factor := int | "-" int | name | "(" number ")"."""
        token = self.take()
        if token.kind == "int":
            return Item(int(token.text), "", token.start, token.end)
        if token.kind == "name":
            return Item(self._size(token), token.text, token.start, token.end)
        if token.text == "-" and self.now.kind == "int":
            digits = self.take()
            return Item(-int(digits.text), "", token.start, digits.end)
        if token.text == "(":
            if depth >= MAX_DEPTH:
                raise self.fail(f"brackets more than {MAX_DEPTH} deep", token)
            inner = self.number(depth + 1)
            closing = self.accept(")")
            if closing is None:
                raise self.fail("this bracket is not closed", token, "Put ) after the number")
            return Item(inner.value, inner.name, token.start, closing.end)
        what = "the text ends" if token.kind == "end" else f"“{token.text}” stands"
        raise self.fail(f"{what} where a number should be", token)

    def _size(self, token: Token) -> int:
        if token.text in self.sizes:
            return self.sizes[token.text]
        near = get_close_matches(token.text, self.sizes, 1, 0.5)
        known = f"; {near[0]} has" if near else ""
        raise self.fail(
            f"{token.text} has no size{known}", token, f"Add {token.text}=… to the sizes"
        )

    def _name(self, start: int, end: int) -> str:
        written = "".join(self.text[start:end].split())
        named = any(t.kind == "name" for t in self._tokens if t.start >= start and t.end <= end)
        return written if named else ""


def parse_axes(text: str) -> dict[str, Item]:
    """Sizes as typed, "h=4, d=8" or "h=4 d=8", by name.

    Raises:
        ReshapeError: with its position.
    """
    reader = Reader("axes", text, {})
    found: dict[str, Item] = {}
    while reader.now.kind != "end":
        name = reader.take()
        if name.kind != "name":
            raise reader.fail("a name should stand here", name, "Sizes are written as h=4, d=8")
        if reader.accept("=") is None:
            raise reader.fail(f"“=” and a number should follow {name.text}", works=f"{name.text}=4")
        if name.text in found:
            raise reader.fail(f"{name.text} has a size already", name, "Leave one of them out")
        # Names that came before may be used: d_model=32 h=4 d=d_model//h.
        reader.sizes = {known: item.value for known, item in found.items()}
        item = reader.number()
        if item.value < 1:
            raise reader.fail("a size must be at least 1", item, f"{name.text}=1")
        if item.value > MAX_NUMEL:
            raise reader.fail(f"a size of {item.value:,} is over {MAX_NUMEL:,}", item)
        found[name.text] = item
        reader.accept(",")
    return found


def parse_shape(text: str, sizes: Mapping[str, int]) -> list[Item]:
    """A shape as typed, "2, 6, 32", "(b, t, h*d)" or "2 6 32"; [] where nothing is.

    Raises:
        ReshapeError: with its position.
    """
    reader = Reader("shape", text, sizes)
    opening = reader.accept("[")
    if opening is None and reader.now.text == "(":
        opening = _around(reader)
    closing = {"[": "]", "(": ")"}.get(opening.text if opening else "", "")
    found: list[Item] = []
    while reader.now.kind != "end" and reader.now.text != closing:
        item = reader.number()
        if item.value < 1:
            raise reader.fail(
                "an axis must have a size of at least 1: of none there is nothing to show", item
            )
        found.append(item)
        reader.accept(",")
    if opening is not None and reader.accept(closing) is None:
        raise reader.fail("this bracket is not closed", opening, f"Put {closing} at the end")
    if reader.now.kind != "end":
        raise reader.fail(f"“{reader.now.text}” stands after the shape")
    return found


def _around(reader: Reader) -> Token | None:
    """The bracket around the whole shape, taken; None where it is one around a number alone."""
    depth = 0
    for token in scan(reader.field, reader.text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.text == ")":
            rest = reader.text[token.end :].strip()
            return reader.take() if not rest else None
    return reader.take()  # never closed: said at the end
