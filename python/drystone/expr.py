"""Expressions: conditions and derived values, built from variables and operators, or read from a text.

    (c["p"] > 3e-5) & (expr.abs(c["u"]) < 1)
    expr.sqrt(c["u"] * c["u"] + c["v"] * c["v"])
    expr.parse("p > 3e-5 & abs(u) < 1")

Operators make a tree and read nothing. docs/guide/expressions.md has the rules: types are NumPy's, constants take
the type of the other operand, and a conversion that could lose a value needs a cast (`expr.f8(c["n"])`). Python's
`&` and `|` bind tighter than comparisons: put those in brackets.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from drystone._core import ExpressionHandle
from drystone.errors import InvalidArgumentError

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.variable import Variable

__all__ = [
    "Expression",
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "bool_",
    "cbrt",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "eq",
    "exp",
    "expm1",
    "f4",
    "f8",
    "floor",
    "hypot",
    "i1",
    "i2",
    "i4",
    "i8",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "magnitude",
    "max",
    "min",
    "ne",
    "norm",
    "of",
    "parse",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "u1",
    "u2",
    "u4",
    "u8",
    "where",
]

Operand = Any
"""An `Expression`, a `Variable` or a number. Comparisons of a variable also accept an instant, a duration or the name
of a value."""


class Operators:
    """The operators that make expressions, except `==`: see `Expression` and `Variable`."""

    __slots__ = ()

    def _expression(self) -> Expression:
        raise NotImplementedError

    def __add__(self, other: Operand) -> Expression:
        return _combine("+", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return _combine("+", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return _combine("-", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return _combine("-", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return _combine("*", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return _combine("*", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return _combine("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _combine("/", other, self)

    def __floordiv__(self, other: Operand) -> Expression:
        return _combine("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Expression:
        return _combine("//", other, self)

    def __mod__(self, other: Operand) -> Expression:
        return _combine("%", self, other)

    def __rmod__(self, other: Operand) -> Expression:
        return _combine("%", other, self)

    def __pow__(self, other: Operand) -> Expression:
        return _combine("**", self, other)

    def __rpow__(self, other: Operand) -> Expression:
        return _combine("**", other, self)

    def __lshift__(self, other: Operand) -> Expression:
        return _combine("<<", self, other)

    def __rlshift__(self, other: Operand) -> Expression:
        return _combine("<<", other, self)

    def __rshift__(self, other: Operand) -> Expression:
        return _combine(">>", self, other)

    def __rrshift__(self, other: Operand) -> Expression:
        return _combine(">>", other, self)

    def __and__(self, other: Operand) -> Expression:
        return _combine("&", self, other)

    def __rand__(self, other: Operand) -> Expression:
        return _combine("&", other, self)

    def __or__(self, other: Operand) -> Expression:
        return _combine("|", self, other)

    def __ror__(self, other: Operand) -> Expression:
        return _combine("|", other, self)

    def __xor__(self, other: Operand) -> Expression:
        return _combine("^", self, other)

    def __rxor__(self, other: Operand) -> Expression:
        return _combine("^", other, self)

    def __lt__(self, other: Operand) -> Expression:
        return _combine("<", self, other)

    def __le__(self, other: Operand) -> Expression:
        return _combine("<=", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return _combine(">", self, other)

    def __ge__(self, other: Operand) -> Expression:
        return _combine(">=", self, other)

    def __neg__(self) -> Expression:
        return _apply("-", self)

    def __pos__(self) -> Expression:
        return self._expression()

    def __invert__(self) -> Expression:
        return _apply("~", self)

    def __abs__(self) -> Expression:
        return _apply("abs", self)


class Expression(Operators):
    """A condition or a derived value: a tree of names, constants and operators. It never changes and reads nothing.

    `==` and `!=` make conditions, so an expression has no hash; `same` compares trees. It has no truth value:
    `and`, `or`, `not` and chained comparisons of Python do not apply; write `&`, `|`, `~`.
    """

    __slots__ = ("_container", "_handle")
    __hash__ = None  # type: ignore[assignment]
    # NumPy's arrays and scalars leave the operators to this class.
    __array_ufunc__ = None

    def __init__(self, handle: ExpressionHandle, container: Container | None = None) -> None:
        self._handle = handle
        self._container = container

    def _expression(self) -> Expression:
        return self

    @property
    def text(self) -> str:
        """Its text, which `parse` turns into the same tree."""
        return self._handle.text

    @property
    def container(self) -> Container | None:
        """The container of its variables; None for a text without one."""
        return self._container

    @property
    def names(self) -> list[str]:
        """The variables in it, members after dots, each once, in the order of their use."""
        return list(dict.fromkeys(".".join([path, *members]) for path, members, _ in self._handle.names))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the result, from the types of the variables in the container. Checks the whole expression."""
        if self._container is None:
            raise InvalidArgumentError(
                f"`{self.text}` belongs to no container: parse it with one, as expr.parse(text, c)"
            )
        return np.dtype(self._handle.dtype(dict(_types(self._container, self._handle.names))))

    def check(self, types: Mapping[str, Any]) -> np.dtype[Any]:
        """The type of the result, given the dtypes of the names, members after dots."""
        return np.dtype(self._handle.dtype({name: _type_name(dtype) for name, dtype in types.items()}))

    def encode(self) -> bytes:
        """The tree as bytes (docs/format/expression.md), equal for equal trees."""
        return self._handle.encode()

    @staticmethod
    def decode(data: bytes) -> Expression:
        """The tree that `encode` wrote."""
        return Expression(ExpressionHandle.decode(data))

    def same(self, other: Expression) -> bool:
        """Whether both are the same tree."""
        return self._handle == other._handle

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _combine("==", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _combine("!=", self, other)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the condition `{self.text}` has no truth value: write `&`, `|`, `~` for `and`, `or`, `not`, with comparisons in brackets"
        )

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[Any, ...]]:
        return _restored, (type(self), self.encode(), self._container)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<drystone expression {self.text}>"


def _restored(kind: type[Expression], data: bytes, container: Container | None) -> Expression:
    return kind(ExpressionHandle.decode(data), container)


def parse(text: str, container: Container | None = None) -> Expression:
    """The expression of a text.

    With a container, `/` after the path of a group descends into it, as in `fields/p > 3`.
    """
    groups = [] if container is None else _groups(container)
    return Expression(ExpressionHandle.parse(text, groups), container)


def _groups(container: Container) -> list[str]:
    paths = {parent for path in container.variables for parent in _parents(path)}
    return sorted(paths)


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _types(container: Container, names: Iterable[tuple[str, Any, Any]]) -> Iterator[tuple[str, str]]:
    """Names and types of the named variables, members after dots.

    Of all other variables the names, for suggestions.
    """
    used = {path for path, _, _ in names}
    for path in container.variables:
        if path in used:
            yield from _named_types(path, container.variables[path].dtype)
        else:
            yield path, "it is not asked for"


def _named_types(name: str, dtype: np.dtype[Any]) -> Iterator[tuple[str, str]]:
    yield name, _type_name(dtype)
    for member, (inner, *_) in (dtype.fields or {}).items():
        yield from _named_types(f"{name}.{member}", inner)


def _type_name(dtype: Any) -> str:
    """The name of a type in the language, or why expressions do not accept its values."""
    dtype = np.dtype(dtype)
    if dtype.names is not None:
        return f"it is a record: name a member, as `.{dtype.names[0]}`"
    if dtype.subdtype is not None:
        return "its elements are arrays, on which there are no expressions"
    if dtype.kind == "b":
        return "bool"
    if dtype.kind in "mM":
        return "i8"  # the integers that they are stored as
    if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8)):
        return f"{dtype.kind}{dtype.itemsize}"
    if dtype.kind in "USOT":
        return "it holds texts, on which there are no conditions"
    return f"it is {dtype}, on which there are no expressions"


def _operand(value: Operand) -> Expression | None:
    """An operand as an expression; None if it is not one."""
    if isinstance(value, Operators):
        return value._expression()
    if isinstance(value, np.generic):
        value = None if value.dtype.kind in "mM" else value.item()
    if isinstance(value, int | float):
        return Expression(ExpressionHandle.constant(value))
    return None


_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def is_word(value: object) -> bool:
    """Whether it is an instant, a duration or a name, which queries convert to integers."""
    return isinstance(value, str | datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64)


def _word(value: Operand) -> Expression | None:
    """An instant, a duration or the name of a value as a text for conditions; None for other objects."""
    if not is_word(value):
        return None
    if not isinstance(value, str):
        exact = getattr(value, "to_datetime64", getattr(value, "to_timedelta64", None))  # as pandas has them
        dates = isinstance(value, datetime.date | np.datetime64)
        time = np.asarray(value if exact is None else exact(), "M8" if dates else "m8")[()]
        if np.isnat(time):
            raise InvalidArgumentError("NaT is equal to nothing and before nothing: compare with an instant")
        unit, count = np.datetime_data(time.dtype)
        value = str(time) if dates else f"{int(time.astype(np.int64)) * count} {unit}"
    return Expression(ExpressionHandle.constant(value))


def _made(name: str, operands: Iterable[Expression]) -> Expression:
    operands = list(operands)
    containers = [operand._container for operand in operands if operand._container is not None]
    for container in containers[1:]:
        if container is not containers[0]:
            raise InvalidArgumentError(
                f"`{name}` joins variables of {containers[0]!r} and of {container!r}: an expression is about one container"
            )
    handle = ExpressionHandle.apply(name, [operand._handle for operand in operands])
    return Expression(handle, containers[0] if containers else None)


def _combine(sign: str, a: Operand, b: Operand) -> Expression:
    """Apply an operator of Python.

    Returns NotImplemented for other objects, such as arrays, which define the operator themselves.
    """
    if sign in "&|^" and (isinstance(a, bool | np.bool_) or isinstance(b, bool | np.bool_)):
        raise InvalidArgumentError(
            f"`{sign}` joins conditions, and one side is Python's {a if isinstance(a, bool | np.bool_) else b}: "
            "for two variables write expr.eq(a, b) or expr.ne(a, b)"
        )
    left, right = _operand(a), _operand(b)
    if sign in _COMPARISONS and (left is None) != (right is None):
        left, right = (_word(a), right) if left is None else (left, _word(b))
    if left is None or right is None:
        return NotImplemented  # type: ignore[no-any-return]
    return _made(sign, [left, right])


def _apply(name: str, *values: Operand) -> Expression:
    operands = []
    for value in values:
        operand = _operand(value)
        if operand is None:
            raise InvalidArgumentError(
                f"`{name}` takes expressions, variables and numbers, not {type(value).__name__}"
            )
        operands.append(operand)
    return _made(name, operands)


def of(variable: Variable, **offsets: int) -> Expression:
    """A variable as an expression.

    With offsets along dimensions, the neighbours of its cells: `of(u, x=1)` is `u[x+1]`.
    """
    if variable._precision is not None:
        raise InvalidArgumentError(
            f'"{variable.name}" is read within an error: an expression is about the values as they are stored'
        )
    members = [] if variable.member is None else variable.member.split(".")
    return Expression(
        ExpressionHandle.name(variable.name, members, list(offsets.items())), variable.container
    )


def eq(a: Operand, b: Operand) -> Expression:
    """True where both are equal. For two variables it compares values, while `==` compares identities."""
    return _apply("==", *_worded(a, b))


def ne(a: Operand, b: Operand) -> Expression:
    """True where both differ; NaN differs from everything."""
    return _apply("!=", *_worded(a, b))


def _worded(*operands: Operand) -> list[Operand]:
    """Operands of a comparison, with instants, durations and names of values as texts."""
    return [_word(one) if is_word(one) else one for one in operands]


def where(condition: Operand, a: Operand, b: Operand) -> Expression:
    """`a` where the condition holds, else `b`."""
    return _apply("where", condition, a, b)


def clip(x: Operand, low: Operand, high: Operand) -> Expression:
    """`min(max(x, low), high)`."""
    return _apply("clip", x, low, high)


def min(a: Operand, b: Operand, *more: Operand) -> Expression:
    """The smallest value at each cell; NaN if one is NaN."""
    return _apply("min", a, b, *more)


def max(a: Operand, b: Operand, *more: Operand) -> Expression:
    """The largest value at each cell; NaN if one is NaN."""
    return _apply("max", a, b, *more)


def norm(x: Operand, *more: Operand) -> Expression:
    """The root of the sum of squares."""
    return _apply("norm", x, *more)


magnitude = norm


def atan2(y: Operand, x: Operand) -> Expression:
    """The angle of the point (x, y)."""
    return _apply("atan2", y, x)


def hypot(x: Operand, y: Operand) -> Expression:
    """The root of `x * x + y * y`, without overflow."""
    return _apply("hypot", x, y)


def _function(name: str, doc: str) -> Callable[[Operand], Expression]:
    def function(x: Operand) -> Expression:
        return _apply(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs = _function("abs", "The magnitude.")
sign = _function("sign", "-1, 0 or 1.")
floor = _function("floor", "The greatest whole number that is not above.")
ceil = _function("ceil", "The least whole number that is not below.")
trunc = _function("trunc", "The whole number towards zero.")
round = _function("round", "The nearest whole number; of halves the even one.")
sqrt = _function("sqrt", "The square root.")
cbrt = _function("cbrt", "The cube root.")
exp = _function("exp", "e to a power.")
expm1 = _function("expm1", "`exp(x) - 1`, exact near 0.")
log = _function("log", "The natural logarithm.")
log2 = _function("log2", "The logarithm of base 2.")
log10 = _function("log10", "The logarithm of base 10.")
log1p = _function("log1p", "`log(1 + x)`, exact near 0.")
sin = _function("sin", "The sine.")
cos = _function("cos", "The cosine.")
tan = _function("tan", "The tangent.")
asin = _function("asin", "The angle of a sine.")
acos = _function("acos", "The angle of a cosine.")
atan = _function("atan", "The angle of a tangent.")
sinh = _function("sinh", "The hyperbolic sine.")
cosh = _function("cosh", "The hyperbolic cosine.")
tanh = _function("tanh", "The hyperbolic tangent.")
invert = _function("invert", "Every bit of an integer flipped; `~` is the complement of a condition.")
isnan = _function("isnan", "Where it is NaN.")
isinf = _function("isinf", "Where it is infinite.")
isfinite = _function("isfinite", "Where it is neither NaN nor infinite.")
bool_ = _function("bool", "Where it is not zero.")
i1 = _function("i1", "A cast to int8.")
i2 = _function("i2", "A cast to int16.")
i4 = _function("i4", "A cast to int32.")
i8 = _function("i8", "A cast to int64.")
u1 = _function("u1", "A cast to uint8.")
u2 = _function("u2", "A cast to uint16.")
u4 = _function("u4", "A cast to uint32.")
u8 = _function("u8", "A cast to uint64.")
f4 = _function("f4", "A cast to float32.")
f8 = _function("f8", "A cast to float64.")
