"""Prints what NumPy makes of expressions: tests/vectors/expressions/numpy_values.txt, which is written once.

Texts are those of the language, with brackets where Python's precedence differs. Lines:
    input NAME DTYPE HEX            the bytes of the values, little-endian
    MODE TEXT | DTYPE | HEX         MODE: exact, signless (zeros may differ in sign), or the greatest distance in ulps
"""

import itertools
import sys

import numpy as np

CELLS = 32
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 300
random = np.random.default_rng(102)
INTEGERS = "i1 i2 i4 i8 u1 u2 u4 u8".split()
FLOATS = "f4 f8".split()


def integers(dtype, seed):
    info = np.iinfo(dtype)
    edge = [info.min, info.max, 0, 1, 2, 3, 5, 7, info.max - 1, info.min + 1]
    if info.min < 0:
        edge += [-1, -2, -3, -7]
    anything = random.integers(info.min, info.max, CELLS, dtype=dtype, endpoint=True)
    out = np.array((edge + list(anything))[:CELLS], dtype)
    return random.permutation(out) if seed else out


def floats(dtype, seed):
    info = np.finfo(dtype)
    edge = [0.0, -0.0, np.nan, np.inf, -np.inf, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, 0.1, -0.1, 3, -7.25, 100.75]
    edge += [info.max, info.min, info.tiny, info.smallest_subnormal, info.eps, 1e10, -1e10]
    out = np.array((edge + list(random.normal(size=CELLS)))[:CELLS], dtype)
    return random.permutation(out) if seed else out


names = {f"{t}_{n}": integers(t, n == "b") for t in INTEGERS for n in "ab"}
names |= {f"{t}_{n}": floats(t, n == "b") for t in FLOATS for n in "ab"}
names |= {f"{t}_s": np.linspace(-100, 100, CELLS).astype(t) for t in FLOATS}
names |= {f"bool_{n}": random.integers(0, 2, CELLS).astype(bool) for n in "ab"}

functions = {t: (lambda x, t=t: np.asarray(x).astype(t)) for t in [*INTEGERS, *FLOATS, "bool"]}
for name in (
    "sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan sinh cosh tanh floor ceil trunc sign where".split()
):
    functions[name] = getattr(np, name)
functions |= {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "hypot": np.hypot}
functions |= {"abs": np.abs, "min": np.minimum, "max": np.maximum, "clip": np.clip, "round": np.rint}
functions |= {"invert": np.invert, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


def texts():
    for t in INTEGERS:
        a, b = f"{t}_a", f"{t}_b"
        for op in "+ - * // % & | ^ << >> == != < <= > >=".split():
            yield "exact", f"{a} {op} {b}"
        for text in f"-{a}", f"abs({a})", f"sign({a})", f"invert({a})", f"min({a}, {b})", f"max({a}, {b})":
            yield "exact", text
        for power in 0, 1, 2, 3, 7:
            yield "exact", f"{a} ** {power}"
        for to in [*INTEGERS, *FLOATS, "bool"]:
            yield "exact", f"{to}({a})"
        yield "exact", f"{a} // 3 + {b} % 5"
        yield "exact", f"clip({a}, 2, 100)"
        yield "exact", f"({a} > 2) & ({b} < 9)"
    for t in FLOATS:
        a, b = f"{t}_a", f"{t}_b"
        for op in "+ - * / // % == != < <= > >=".split():
            yield "exact", f"{a} {op} {b}"
        for text in (
            f"-{a}",
            f"abs({a})",
            f"sqrt({a})",
            f"{a} * 0.1",
            f"0.1 - {a}",
            f"{a} < 0.1",
            f"{a} / 3 + 1",
        ):
            yield "exact", text
        for name in "floor ceil trunc round isnan isinf isfinite bool f4 f8".split():
            yield "exact", f"{name}({a})"
        yield "exact", f"({a} > 0) & ~({b} < 1) | isnan({a})"
        yield "exact", f"where({a} > {b}, {a}, 0)"
        for text in f"min({a}, {b})", f"max({a}, {b})", f"clip({a}, -1, 1)", f"sign({a})":
            yield "signless", text
        for power in "1", "2", "0.5", "-1":
            yield "exact", f"{a} ** {power}"
        for power in "0", "3", "-2", "0.3", "1.5":
            yield "4", f"abs({a}) ** {power}"
        yield "4", f"{a} ** {b}"
        for name in "cbrt exp expm1 log log2 log10 log1p tanh atan asin acos".split():
            yield "4", f"{name}({a})"
        for name in "sin cos tan sinh cosh".split():
            yield "4", f"{name}({t}_s / 8)"
        for name in "atan2", "hypot":
            yield "4", f"{name}({a}, {b})"
        for to in "i1", "i2", "i4", "i8":
            yield "exact", f"{to}({t}_s)"
    every = [*INTEGERS, *FLOATS]
    for x, y in itertools.permutations(every, 2):
        wide = {"i8", "u8"}
        if (x in wide and y in FLOATS) or (y in wide and x in FLOATS):
            continue
        if np.result_type(x, y).kind == "f" and x in INTEGERS and y in INTEGERS:
            yield "exact", f"{x}_a < {y}_b"
            yield "exact", f"{x}_a == {y}_b"
            continue
        yield "exact", f"{x}_a + {y}_b"
        yield "exact", f"{x}_a >= {y}_b"
    for t in "i1", "i2", "i4", "u1", "u2", "u4":
        yield "exact", f"{t}_a / {t}_b"
        yield "exact", f"{t}_a * 0.5"
        yield "exact", f"{t}_a > 2.5"
        yield "exact", f"{t}_a < 300"
        yield "exact", f"{t}_a >= -1"
    for op in "&", "|", "^", "==", "!=":
        yield "exact", f"bool_a {op} bool_b"
    for text in "~bool_a", "i4(bool_a)", "f8(bool_a)", "where(bool_a, 1, 0)", "where(bool_a, f4_a, f8_b)":
        yield "exact", text
    yield "exact", "u8_a > 9223372036854775807"
    yield "exact", "i8_a < 9223372036854775808"
    yield "exact", "sqrt(f4_a * f4_a + f4_b * f4_b)"
    yield "exact", "2 ** 0.5 * f4_a"


def number(dtype, size):
    """A random expression of a type, of operations that are exact."""
    if size == 0:
        return f"{dtype}_{random.choice(list('ab'))}"
    one = f"({number(dtype, size - 1)})"
    two = f"({number(dtype, random.integers(0, size))})"
    forms = [f"{one} {op} {two}" for op in ("+", "-", "*", "//", "%")]
    forms += [
        f"-{one}",
        f"abs({one})",
        f"where({condition(size - 1)}, {one}, {two})",
        f"{two} * 3 - {one}",
        f"{one} ** 2",
    ]
    if dtype in FLOATS:
        forms += [f"{one} / {two}", f"sqrt({one})", f"floor({one})", f"round({one})", f"{one} * 0.7"]
        forms += [f"{dtype}({number(random.choice([*INTEGERS, *FLOATS]), size - 1)})"]
    else:
        forms += [f"{one} {op} {two}" for op in "&|^"] + [
            f"min({one}, {two})",
            f"max({one}, {two})",
            f"{one} >> 1",
        ]
        forms += [f"{dtype}({number(random.choice(INTEGERS), size - 1)})", f"invert({one})"]
    return str(random.choice(forms))


def condition(size):
    """A random condition."""
    if size == 0:
        return f"bool_{random.choice(list('ab'))}"
    dtype = random.choice([*INTEGERS, *FLOATS])
    one, two = f"({condition(size - 1)})", f"({condition(random.integers(0, size))})"
    x, y = (f"({number(dtype, random.integers(0, size))})" for _ in "xy")
    forms = [f"{one} {op} {two}" for op in ("&", "|", "^", "==")] + [
        f"~{one}",
        f"where({one}, {two}, {x} < {y})",
    ]
    forms += [f"{x} {op} {y}" for op in ("==", "!=", "<", "<=", ">", ">=")] + [f"isnan({x})", f"bool({x})"]
    return str(random.choice(forms))


def random_texts(count):
    """Random expressions, conditions and numbers in turn."""
    for n in range(count):
        size = 1 + n % 6
        text = condition(size) if n % 2 else number(random.choice([*INTEGERS, *FLOATS]), size)
        if len(text) < 1000:
            yield "exact", text


def main():
    for name, values in names.items():
        print("input", name, name.split("_")[0], values.tobytes().hex())
    for mode, text in itertools.chain(texts(), random_texts(COUNT)):
        with np.errstate(all="ignore"):
            result = np.broadcast_to(eval(text, {"__builtins__": {}}, functions | names), (CELLS,))
        dtype = "bool" if result.dtype == bool else f"{result.dtype.kind}{result.dtype.itemsize}"
        print(mode, text, "|", dtype, "|", np.ascontiguousarray(result).tobytes().hex())


if __name__ == "__main__":
    main()
