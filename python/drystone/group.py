"""Groups: names joined by `/`, and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, Literal, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from drystone import assigning, html, records, tree, values
from drystone._core import element_dtype
from drystone.errors import ConflictError, InvalidArgumentError, NotFoundError
from drystone.reports import StoredDerived

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.expr import Expression
    from drystone.variable import Variable

T = TypeVar("T")


_LONGEST_NAME = 1024
"""The longest path in bytes. The engine refuses longer ones too, but its message repeats the path."""
BINS = "alacrity:bits=13"
"""The transform for `index="bins"`: bins of equal sign, exponent and first four mantissa bits (of 4-byte floats)."""


def check_name(name: str) -> None:
    """Refuse a path that is too long for any name, without printing all of it."""
    check_text(name, "name")
    if len(name.encode()) > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"the name {name[:24]!r} ... of {len(name)} characters is too long: a path has {_LONGEST_NAME} bytes at most"
        )


def check_text(text: str, what: str) -> None:
    """Refuse texts that are not valid Unicode.

    They contain lone surrogates, which Python makes of undecodable bytes in file names.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{text[:24]!a} is not valid UTF-8, as {what}s have to be") from None


class Group(Mapping[str, Any]):
    """Variables and groups below a path. Names are paths relative to it; a leading `/` means the root.

    It is a mapping of its direct members: `len`, `keys`, `values`, `items`, `get` and iteration. `in`, `get`
    and indexing
    take paths too. Unlike a dictionary it is equal only to itself, and true while it is open, empty or not.
    """

    def __init__(self, container: Container, path: str) -> None:
        self._owner = container
        self._path = path

    @property
    def _container(self) -> Container:
        return self._owner

    def _below(self, name: str) -> str:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"a name is a string, not {name!r:.80}")
        check_name(name)
        absolute = name.startswith("/") or not self._path
        return name.strip("/") if absolute else f"{self._path}/{name.strip('/')}".strip("/")

    @property
    def name(self) -> str:
        """Path in the container; empty for the root."""
        return self._path

    @property
    def attrs(self) -> Attributes:
        """Attributes of the group; setting one is a commit."""
        return Attributes(self._container, self._path)

    def tag(self, tags: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Set attributes of the group, as one commit; `None` removes one. A catalogue finds containers by them."""
        self.attrs.tag(tags, named)

    @property
    def variables(self) -> Names[Variable]:
        """The variables below, by path, in sorted order."""
        from drystone.variable import Variable

        return Names(self, 0, lambda path: Variable(self._container, path))

    @property
    def groups(self) -> Names[Group]:
        """The groups below, by path, in sorted order."""
        return Names(self, 1, lambda path: Group(self._container, path))

    def __getitem__(self, name: str) -> Any:
        """The `Variable` or `Group` of that name (`variables` and `groups` return only one kind)."""
        from drystone.variable import Variable

        path = self._below(name)
        if self._container._latest.kind(path) == "group":
            return Group(self._container, path) if path else self._container
        self._container._handle.reading(path, None)
        return Variable(self._container, path)

    def __contains__(self, name: object) -> bool:
        try:
            path = self._below(name)  # type: ignore[arg-type]
        except InvalidArgumentError:  # A name that nothing can have.
            return False
        return self._container._latest.kind(path) is not None

    def __iter__(self) -> Iterator[str]:
        """Names of its direct members."""
        variables, groups = self._container._latest.names(self._path)
        return iter(sorted(path for path in {*variables, *groups} if "/" not in path))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return not self._container.closed

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def get(self, name: str, default: Any = None) -> Any:
        """The `Variable` or `Group` of that name; `default` if there is none."""
        return self[name] if name in self else default  # noqa: SIM401 (this is `get`)

    def visititems(self, visit: Callable[[str, Any], Any]) -> Any:
        """Call `visit(path, object)` for every variable and group below, depth first, in the order of names.

        It stops at the first call that returns something other than None, and returns that.
        """
        variables, groups = self.variables, self.groups
        for path in sorted({*variables, *groups}, key=lambda path: path.split("/")):
            found = visit(path, variables[path] if path in variables else groups[path])
            if found is not None:
                return found
        return None

    def visit(self, visit: Callable[[str], Any]) -> Any:
        """Call `visit(path)` for every variable and group below, like `visititems`."""
        return self.visititems(lambda path, _: visit(path))

    def tree(self, depth: int | None = None) -> tree.Tree:
        """The names below with types and shapes, as printable text; `depth` levels of them.

        `print(group)` shows it, too.
        """
        return tree.Tree(tree.drawn(self, self._path or "/", depth))

    def _ipython_key_completions_(self) -> list[str]:
        """Completions of `c["<Tab>`: all paths below."""
        return sorted({*self.variables, *self.groups})

    def __setitem__(self, name: str, value: Any) -> None:
        """Create a variable with the dtype, shape and values of an array. An existing name raises `ConflictError`.

        `c[name][...] = value` replaces the values of a variable, and `del c[name]` permits creating another
        one under that name.
        """
        if name in self:
            raise _there_already(self._below(name))
        if isinstance(value, Mapping):
            raise InvalidArgumentError(f"{name!r:.80} takes an array: create_group makes groups")
        if value is None:
            raise InvalidArgumentError(f"{name!r:.80} takes an array, not None")
        self.create_variable(name, data=value)

    def __delitem__(self, name: str) -> None:
        self.delete(name)

    def create_variable(
        self,
        name: str,
        dtype: Any = None,
        shape: Sequence[int | str | None] | int | str | EllipsisType | None = ...,
        dims: Sequence[str] | None = None,
        steps: bool = False,
        local: bool = False,
        transform: str | Sequence[str | Mapping[str, Any]] | None = None,
        chunks: Sequence[int] | None = None,
        fill_value: Any = None,
        attrs: Mapping[str, Any] | None = None,
        access: str | None = None,
        *,
        data: Any = None,
        index: Literal["bins", "zones"] | None = None,
    ) -> Variable:
        """Create a variable, and the groups above it.

        Creating the identical variable again changes nothing; a different one of the same name raises
        `ConflictError`. With `data`, any existing name does, so no values are replaced.

        Args:
            name: Path, with `/` between groups.
            dtype: Any argument of `numpy.dtype`, `"bfloat16"`, `str` for strings of any length,
                `drystone.ragged("f4")` for lists of numbers; by default that of `data`.
            shape: Extents, without the step axis; `None` or `"*"` grows as blocks are put. By default one value, or
                that of `data`.
            dims: A name per dimension.
            steps: One array per output time; else one array.
            local: One value or array of any shape per writer (and step).
            transform: Codecs, such as `"shuffle,zstd:1"`, a list of them, or Zarr codec objects.
            chunks: Shape of the pieces that blocks are cut into and read by.
            fill_value: The value of unwritten cells; zero if not given.
            attrs: Attributes.
            access: The expected mix of reads, such as `"plane:z 60%, box:64"` (docs/reference/language.md), for
                which blocks and chunks are cut.
            data: An array to assign to it, with steps as its first axis if it has them. It becomes visible as
                assignments do.
            index: `"bins"` stores numbers by their leading bits, in place of a transform: queries for a range of
                values read few bytes, while writing and reading take longer. `"zones"` are the statistics that
                every variable has. See docs/guide/queries.md.

        """
        from drystone.variable import Variable

        path = self._below(name)
        if index is not None:
            transform = _indexed(path, index, transform)
        dims = None if dims is None else [dims] if isinstance(dims, str) else list(dims)
        for dim in dims or ():
            if isinstance(dim, str) and not dim.isascii():
                check_text(dim, "dimension")
        array = None
        if data is not None:
            if local:
                raise InvalidArgumentError(f'"{path}" is to be local, without data: each writer puts its own')
            if self._container._batched:
                raise ConflictError(
                    f'"{path}" is made in a batch, which takes no values: assign the data when it has ended'
                )
            array, dtype = _given(path, data, dtype)
        elif dtype is None:
            raise InvalidArgumentError(f'"{path}" needs a dtype, or data to take it from')
        extents = () if shape is ... and array is None else shape
        if array is not None:
            extents = _extents(path, array, shape, bool(steps))
        element, strings = element_dtype(dtype)
        if index == "bins" and not _has_numbers(element):
            raise InvalidArgumentError(f'"{path}" is to hold {element}: bins are for integers and floats')
        made = self._container._handle.create_variable(
            path,
            dtype,
            _as_tuple(extents),
            dims,
            bool(steps),
            bool(local),
            transform,
            chunks,
            values.fill_bytes(fill_value, element, strings),
            values.named(attrs, "attrs"),
            access,
        )
        self._container._warn()
        if array is not None:
            if not made:
                raise _there_already(path)
            assigning.assign_box(self._container, path, None, [0] * array.ndim, array)
        return Variable(self._container, path)

    def derive(
        self,
        name: str,
        definition: str | Expression,
        kind: Literal["virtual", "bounds", "stored"] = "virtual",
        edge: Literal["one_sided", "fill", "periodic", "nan"] = "one_sided",
        attrs: Mapping[str, Any] | None = None,
    ) -> Variable:
        """Create a variable that is computed from others when it is read, and return it. It is committed on return.

        It has the shape, the dimensions and the steps of the variables in the definition, and is read like any
        variable. A vector, such as `curl(u, v, w)`, has its components along a last axis. A cell is written if all
        cells that its value depends on are; others read as NaN, or as 0 for integers. Names are paths in the
        container; renaming an input does not change the definition. Creating the identical variable again changes
        nothing; a different one of the same name raises `ConflictError`.

        Args:
            name: Path, with `/` between groups.
            definition: The expression: a text such as `"sqrt(u*u + v*v)"`, `"diff(u, x)"`, `"u[x+1] - u"`, or an
                expression of variables. See docs/guide/expressions.md.
            kind: What is stored besides the definition: nothing (`"virtual"`), statistics with which queries skip
                parts (`"bounds"`), or the values (`"stored"`). The commit of a step's blocks computes them;
                `store_derived` computes those of existing steps.
            edge: What neighbours and differences use beyond the edge of the domain: `"one_sided"` as
                `numpy.gradient`, `"fill"` the fill value of each input, `"periodic"` the cells at the opposite end,
                `"nan"` nothing, so that the value is NaN.
            attrs: Attributes, such as `units`. Without `units`, the units of the inputs are checked and those of the
                result are set, as far as they are known; incompatible units raise `InvalidArgumentError`.

        """
        path = self._below(name)
        self._container._settle_before_change()
        from drystone.variable import Variable

        text = str(definition)
        self._container._handle.derive(path, text, kind, edge, values.named(attrs, "attrs"))
        self._container._warn()
        return Variable(self._container, path)

    def store_derived(
        self,
        names: str | Sequence[str] | None = None,
        steps: SupportsIndex | Sequence[SupportsIndex] | None = None,
        budget: SupportsIndex | None = None,
    ) -> StoredDerived:
        """Store missing or outdated values of derived variables of the kinds `"stored"` and `"bounds"`.

        Commits do so for their own steps. Reads return the same bits before and after.

        Args:
            names: The variables; by default all.
            steps: The steps; by default all.
            budget: Limit of the computed values, in bytes.

        """
        chosen = [names] if isinstance(names, str) else names
        paths = None if chosen is None else [self._below(name) for name in chosen]
        at = [steps] if isinstance(steps, SupportsIndex) else steps
        numbers = None if at is None else [step.__index__() for step in at]
        if numbers is not None and any(step < 0 for step in numbers):
            raise InvalidArgumentError(f"steps={numbers}: steps are counted from 0")
        self._container._settle_before_change()
        done = self._container._handle.store_derived(
            paths, numbers, None if budget is None else budget.__index__()
        )
        self._container._handle.refresh()
        self._container._warn()
        return StoredDerived(*done)

    def create_group(self, name: str, attrs: Mapping[str, Any] | None = None) -> Group:
        """Create a group and those above it; the attributes of an existing group are extended."""
        path = self._below(name)
        self._container._handle.create_group(path, values.named(attrs, "attrs"))
        self._container._warn()
        return Group(self._container, path)

    def rename(self, old: str, new: str) -> None:
        """Give a variable, a link or a group with all below it another path."""
        self._container._settle_before_change()
        self._container._handle.rename(self._below(old), self._below(new))
        self._container._warn()

    def delete(self, name: str) -> None:
        """Remove a name, and all names below a group. Earlier snapshots keep them."""
        self._container._settle_before_change()
        self._container._handle.delete(self._below(name))
        self._container._warn()

    def link(self, name: str, target: str) -> None:
        """Make a path an alias of another, which need not exist yet."""
        self._container._handle.link(self._below(name), self._below(target))
        self._container._warn()

    def _repr_html_(self) -> str:
        return html.group(self, f"group {self._path or '/'}", {"container": self._container.path})

    def __str__(self) -> str:
        return tree.drawn(self, repr(self), None, tree.FEW) if self else repr(self)

    def __repr__(self) -> str:
        return f"<drystone group {self._path or '/'} of {self._container.path}>"


def _there_already(path: str) -> ConflictError:
    return ConflictError(
        f'"{path}" is there already: assign to it (c["{path}"][...] = array), or delete it first'
    )


def _indexed(path: str, index: str, transform: Any) -> Any:
    """The transform of a variable with an index."""
    if index == "zones":
        return transform
    if index != "bins":
        raise InvalidArgumentError(f'"{path}": index is "bins" or "zones", not {index!r}')
    if transform is not None:
        raise InvalidArgumentError(
            f'"{path}": index="bins" stores the values by bins, in place of a transform: leave transform= out'
        )
    return BINS


def _has_numbers(element: np.dtype[Any]) -> bool:
    """Whether bins support an element, or a member of it."""
    if element.names is not None:
        return any(_has_numbers(element[name]) for name in element.names)
    return element.kind in "iuf" or element.name == "bfloat16"


def _given(path: str, data: Any, dtype: Any) -> tuple[npt.NDArray[Any], Any]:
    """The initial values of a variable as they are stored, and their dtype."""
    if dtype is None:
        try:
            array = values.as_array(data)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f'"{path}" takes an array: {error}') from None
        dtype = array.dtype
        plain = dtype.kind == "O" and not dtype.metadata
        texts = plain and array.size and all(isinstance(text, str) for text in array.flat)
        if texts or dtype.kind == "T" or (dtype.kind == "U" and not values.is_array(data)):
            dtype = str
        elif plain:
            raise InvalidArgumentError(
                f'"{path}" takes an array of numbers, texts or records, not {type(data).__name__} of objects'
            )
        elif records.holds_objects(dtype):
            dtype = records.said(array)
        data = array
    element, _ = element_dtype(dtype)
    return values.as_stored(data, element, f'"{path}"'), dtype


def _extents(path: str, array: npt.NDArray[Any], shape: Any, steps: bool) -> tuple[Any, ...]:
    """The shape of a variable with initial values."""
    if steps and not array.ndim:
        raise InvalidArgumentError(f'"{path}" has steps: the first axis of data is the step')
    own = array.shape[steps:]
    if shape is ...:
        return own
    given = _as_tuple(shape)
    free = (None, "*")
    if len(given) != len(own) or not all(n in free or n == m for n, m in zip(given, own, strict=True)):
        raise InvalidArgumentError(f'"{path}" is to have the shape {given}, data has {own}')
    return given


def _as_tuple(shape: Any) -> tuple[Any, ...]:
    if shape is None or isinstance(shape, str):
        return (shape,)
    try:
        return tuple(shape)
    except TypeError:
        return (shape,)


class Names(Mapping[str, T], Generic[T]):
    """The variables or groups below a group, by path."""

    def __init__(self, group: Group, which: int, make: Callable[[str], T]) -> None:
        self._group = group
        self._which = which
        self._make = make

    def _names(self) -> list[str]:
        return self._group._container._latest.names(self._group._path)[self._which]

    def __getitem__(self, name: str) -> T:
        path = self._group._below(name)
        handle = self._group._container._latest
        if handle.kind(path) == ("variable", "group")[self._which]:
            return self._make(path)
        if self._which == 0:
            handle.reading(path, None)  # raises, with the nearest names
        raise NotFoundError(f'there is no {("variable", "group")[self._which]} "{path}"')

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            path = self._group._below(name)
        except InvalidArgumentError:  # A name that nothing can have.
            return False
        return self._group._container._latest.kind(path) == ("variable", "group")[self._which]

    def __repr__(self) -> str:
        return repr(self._names())


class Attributes(MutableMapping[str, Any]):
    """Attributes of a variable or group: numbers, strings, lists, dictionaries, NumPy scalars and arrays.

    Setting, removing and `update` are one commit each. Values that are read are copies: changing them changes
    nothing stored.
    """

    def __init__(self, container: Container, path: str) -> None:
        self._container = container
        self._path = path

    def _all(self) -> dict[str, Any]:
        return self._container._latest.attrs(self._path)

    def _change(self, changes: dict[str, Any], gone: list[str]) -> None:
        self._container._handle.change_attrs(self._path, changes, gone)
        self._container._warn()

    def __getitem__(self, name: str) -> Any:
        found = self._all()
        if name not in found:
            raise self._missing(name)
        return found[name]

    def _missing(self, name: object) -> NotFoundError:
        return NotFoundError(f'"{self._path or "/"}" has no attribute {name!r}')

    def __setitem__(self, name: str, value: Any) -> None:
        self._change({name: value}, [])

    def __delitem__(self, name: str) -> None:
        if name not in self._all():
            raise self._missing(name)
        self._change({}, [name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def update(self, *others: Any, **named: Any) -> None:
        """Set several, as one commit."""
        changes = dict(*others, **named)
        if changes:
            self._change(changes, [])

    def tag(self, tags: Mapping[str, Any] | None, named: Mapping[str, Any]) -> None:
        """Set several, as one commit; `None` removes one."""
        given = {**(values.named(tags, "tags") or {}), **named}
        if not given:
            raise InvalidArgumentError("a tag has a name and a value: tag(campaign='a')")
        there = self._all() if any(value is None for value in given.values()) else {}
        changes = {name: value for name, value in given.items() if value is not None}
        gone = [name for name, value in given.items() if value is None and name in there]
        if changes or gone:
            self._change(changes, gone)

    def clear(self) -> None:
        """Remove all, as one commit."""
        names = list(self._all())
        if names:
            self._change({}, names)

    def __repr__(self) -> str:
        return repr(self._all())
