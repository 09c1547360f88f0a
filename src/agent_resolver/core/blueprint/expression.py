"""Expressions of blueprints: the tree, and the parser that reads one from its text.

An expression reads values, compares them and chooses between them. It has no arithmetic, no loops and no clock, so that
it always ends and the same values always give the same result.

    expression  = either ["?" expression ":" expression]
    either      = both {"||" both}
    both        = comparison {"&&" comparison}
    comparison  = fallback [("==" | "!=" | "<" | "<=" | ">" | ">=") fallback]
    fallback    = unary {"??" unary}
    unary       = "!" unary | primary
    primary     = literal | "(" expression ")" | function "(" expression ")" | path
    path        = root {"." name | "[" (text | integer) "]"}
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, Never, TypeAlias, get_args

from msgspec import Struct

from agent_resolver.core import shorten, spelling

MAX_CHARACTERS: Final = 1_000
"""The most characters that the text of an expression may have."""
MAX_NESTING: Final = 20
"""How many parentheses, functions, `!` and `? :` may be inside each other."""
_MAX_INTEGER: Final = 2**63
"""Larger whole numbers are not exact in every program that reads JSON."""
_MAX_SHOWN: Final = 40

Root = Literal["input", "steps", "item", "index", "run", "result"]
Function = Literal["length", "text", "has", "unchecked"]
Comparator = Literal["==", "!=", "<", "<=", ">", ">="]
Connective = Literal["&&", "||", "??"]

ROOTS: Final[dict[str, Root]] = {root: root for root in get_args(Root)}
FUNCTIONS: Final[dict[str, Function]] = {name: name for name in get_args(Function)}
RUN_MEMBERS: Final = ("id", "blueprint", "version", "cost_center", "started_at")
"""What is known of the run itself; `run` has no other members."""

_COMPARATORS: Final[dict[str, Comparator]] = {
    sign: sign for sign in get_args(Comparator)
}
_WORDS: Final[dict[str, bool | None]] = {
    "true": True,
    "false": False,
    "null": None,
}
_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    # A name may hold hyphens, as ids of steps do: without arithmetic they mean nothing else.
    | (?P<name>[^\W\d]\w*(?:-\w+)*)
    | (?P<text>'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")
    | (?P<sign>\|\||&&|\?\?|==|!=|<=|>=|[<>!?:()\[\].])
    """,
    re.VERBOSE | re.DOTALL,
)


class Constant(Struct, frozen=True):
    """A number, a text, `true`, `false` or `null`."""

    value: float | str | bool | None


class Lookup(Struct, frozen=True):
    """A value that is found below a root, by names of members and positions in lists."""

    root: Root
    keys: tuple[str | int, ...]


class Negation(Struct, frozen=True):
    """`!a`."""

    operand: "Expression"


class Comparison(Struct, frozen=True):
    """`a == b` and its like."""

    sign: Comparator
    left: "Expression"
    right: "Expression"


class Joined(Struct, frozen=True):
    """Two or more operands with the same sign between them: `a && b && c`."""

    sign: Connective
    operands: tuple["Expression", ...]


class Conditional(Struct, frozen=True):
    """`condition ? chosen : other`."""

    condition: "Expression"
    chosen: "Expression"
    other: "Expression"


class FunctionCall(Struct, frozen=True):
    """A function with its one argument."""

    function: Function
    argument: "Expression"


Expression: TypeAlias = (
    Constant | Lookup | Negation | Comparison | Joined | Conditional | FunctionCall
)


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside of one."""
    match expression:
        case Negation():
            return (expression.operand,)
        case Comparison():
            return (expression.left, expression.right)
        case Joined():
            return expression.operands
        case Conditional():
            return (expression.condition, expression.chosen, expression.other)
        case FunctionCall():
            return (expression.argument,)
    return ()


class ExpressionFault(Exception):
    """A text is not an expression: what is wrong, what to do, and at which character, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} (at character {offset + 1})")
        self.message = message
        self.offset = offset


def parse_expression(text: str) -> Expression:
    """The tree of an expression.

    Raises:
        ExpressionFault: It is too long, nests too deep, or breaks the grammar.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionFault(
            f"the expression has {len(text):,} characters: {MAX_CHARACTERS:,} are allowed",
            MAX_CHARACTERS,
        )
    parser = _Parser(_tokens_of(text))
    found = parser.expression(0)
    # Every token must be used up: `input.a input.b` is not read as its first half.
    parser.expect_end()
    return found


class _Token(Struct, frozen=True):
    kind: str
    text: str
    offset: int


_END: Final = "end"


def _tokens_of(text: str) -> list[_Token]:
    found: list[_Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise ExpressionFault(_stray_character(text[offset]), offset)
        if match.lastgroup != "space":
            found.append(_Token(str(match.lastgroup), match[0], offset))
        offset = match.end()
    found.append(_Token(_END, "", len(text)))
    return found


def _stray_character(character: str) -> str:
    match character:
        case "'" | '"':
            return f"the text that begins here is not closed: end it with {character}"
        case "=" | "&" | "|":
            return f"unexpected '{character}': did you mean '{character * 2}'?"
        case "+" | "-" | "*" | "/" | "%":
            return f"unexpected '{character}': expressions have no arithmetic; let a step compute the value"
    return f"unexpected {character!r}: remove it, or quote it if it is part of a text"


class _Parser:
    """Descends over the tokens; each method reads one rule of the grammar, at a level of nesting."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0

    # Rules ----------------------------------------------------------------------------

    def expression(self, level: int) -> Expression:
        # All recursion passes through here or through `!`, so that the depth of the
        # stack has a bound.
        self._check_nesting(level)
        condition = self._either(level)
        if not self._take("?"):
            return condition
        chosen = self.expression(level + 1)
        self._expect(":", "`a ? b : c` needs its third part")
        return Conditional(condition, chosen, self.expression(level + 1))

    def _either(self, level: int) -> Expression:
        return self._joined("||", self._both, level)

    def _both(self, level: int) -> Expression:
        return self._joined("&&", self._comparison, level)

    def _fallback(self, level: int) -> Expression:
        return self._joined("??", self._unary, level)

    def _joined(
        self,
        sign: Connective,
        operand: Callable[[int], Expression],
        level: int,
    ) -> Expression:
        operands = [operand(level)]
        while self._take(sign):
            operands.append(operand(level))
        if len(operands) > 1:
            return Joined(sign, tuple(operands))
        return operands[0]

    def _comparison(self, level: int) -> Expression:
        left = self._fallback(level)
        sign = _COMPARATORS.get(self._next.text) if self._next.kind == "sign" else None
        if sign is None:
            return left
        self._place += 1
        found = Comparison(sign, left, self._fallback(level))
        # Languages disagree about `a < b < c`, so it is refused in place of being read
        # in one way.
        if self._next.kind == "sign" and self._next.text in _COMPARATORS:
            self._fail(
                "a comparison has two sides: join comparisons with `&&`, or put one in parentheses"
            )
        return found

    def _unary(self, level: int) -> Expression:
        if not self._take("!"):
            return self._primary(level)
        self._check_nesting(level + 1)
        return Negation(self._unary(level + 1))

    def _primary(self, level: int) -> Expression:
        token = self._next
        match token.kind:
            case "number":
                self._place += 1
                return Constant(_number_in(token))
            case "text":
                self._place += 1
                return Constant(_text_in(token))
            case "name":
                self._place += 1
                return self._named(token, level)
        if not self._take("("):
            self._fail(f"a value is missing here: {self._found()}")
        inner = self.expression(level + 1)
        self._expect(")", "the parenthesis is not closed")
        return inner

    def _named(self, name: _Token, level: int) -> Expression:
        # A name before a parenthesis can only be a function; any other is a word such
        # as `true`, or a root.
        if self._take("("):
            function = FUNCTIONS.get(name.text)
            if function is None:
                raise ExpressionFault(
                    _unknown("function", name.text, FUNCTIONS), name.offset
                )
            argument = self.expression(level + 1)
            self._expect(")", f"`{function}` takes one value")
            return FunctionCall(function, argument)
        if name.text in _WORDS:
            return Constant(_WORDS[name.text])
        root = ROOTS.get(name.text)
        if root is None:
            raise ExpressionFault(_unknown_root(name.text), name.offset)
        found = Lookup(root, self._keys())
        if fault := _lookup_fault(found):
            raise ExpressionFault(fault, name.offset)
        return found

    def _keys(self) -> tuple[str | int, ...]:
        keys: list[str | int] = []
        while True:
            if self._take("."):
                keys.append(self._member_name())
            elif self._take("["):
                keys.append(self._bracketed_key())
                self._expect("]", "the bracket is not closed")
            else:
                return tuple(keys)

    def _member_name(self) -> str:
        if self._next.kind != "name":
            self._fail(
                f'a name follows a dot: {self._found()}; write other names as `["the name"]`'
            )
        self._place += 1
        return self._tokens[self._place - 1].text

    def _bracketed_key(self) -> str | int:
        token = self._next
        # A text or a number has nothing inside, so that the level does not count.
        key = self._primary(MAX_NESTING) if token.kind in {"text", "number"} else None
        if not isinstance(key, Constant) or not isinstance(key.value, str | int):
            raise ExpressionFault(
                "a bracket holds a quoted name or a whole number, such as `[0]`",
                token.offset,
            )
        return key.value

    # Tokens ---------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, sign: str) -> bool:
        is_there = self._next.kind == "sign" and self._next.text == sign
        self._place += is_there
        return is_there

    def _expect(self, sign: str, otherwise: str) -> None:
        if not self._take(sign):
            self._fail(f"{otherwise}: expected `{sign}`, {self._found()}")

    def expect_end(self) -> None:
        if self._next.kind != _END:
            self._fail(
                f"the expression should end here: {self._found()}; is a sign such as `==` or `&&` missing?"
            )

    def _found(self) -> str:
        return (
            "the expression ends"
            if self._next.kind == _END
            else f"found `{self._next.text}`"
        )

    def _check_nesting(self, level: int) -> None:
        if level > MAX_NESTING:
            self._fail(
                f"the expression nests deeper than {MAX_NESTING} levels: let a step compute a part of it"
            )

    def _fail(self, message: str) -> Never:
        raise ExpressionFault(message, self._next.offset)


def _number_in(token: _Token) -> int | float:
    # A number without a point or an exponent is whole, and stays exact.
    is_whole = token.text.lstrip("-").isdecimal()
    if not is_whole:
        # `1e999` is infinite for Python, and JSON has no such number.
        number = float(token.text)
        if abs(number) < float("inf"):
            return number
    elif -_MAX_INTEGER <= int(token.text) < _MAX_INTEGER:
        return int(token.text)
    raise ExpressionFault(
        "the number is too large: quote it to make it a text", token.offset
    )


def _text_in(token: _Token) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            known = " ".join(f"\\{character}" for character in _ESCAPES)
            raise ExpressionFault(
                f"unknown escape {match[0]!r}: known are {known}",
                token.offset + 1 + match.start(),
            )
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", replaced, token.text[1:-1], flags=re.DOTALL)


def _unknown_root(name: str) -> str:
    if name in FUNCTIONS:
        return f"`{name}` is a function: write `{name}(…)`"
    return _unknown("root", name, ROOTS)


def _lookup_fault(found: Lookup) -> str | None:
    """The fault of a path that the grammar allows, or None."""
    first = found.keys[0] if found.keys else None
    # Each use of `steps` names one step, since the order of steps follows from the
    # results that are read.
    if found.root == "steps" and not isinstance(first, str):
        return "`steps` needs the id of a step: `steps.the_step`"
    if found.root == "run" and first is not None and first not in RUN_MEMBERS:
        return _unknown("member of `run`", str(first), RUN_MEMBERS)
    return None


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    # Nothing is decided by the likeness: it is only shown.
    near = spelling.similar_scopes(name, known)
    rest = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}"
    return f"unknown {kind} '{shorten.shorten(name, _MAX_SHOWN)}': {rest}"
