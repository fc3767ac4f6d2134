"""Random values of any dtype, and equality to the bit."""

import os

import drystone as dry
import numpy as np


def same(got, expected) -> None:
    """Check for equal type, dtype, shape, and bits (except padding of records)."""
    assert type(got) is type(expected), (type(got), type(expected))
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype.names:
        for name in got.dtype.names:
            same(np.asarray(got[name]), np.asarray(expected[name]))
    elif got.dtype == object:
        assert got.tolist() == expected.tolist()
    elif got.tobytes() != expected.tobytes():
        np.testing.assert_array_equal(got, expected)
        raise AssertionError("equal values, other bits")


def random_array(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Any bits that the dtype permits, NaN payloads included."""
    if dtype.names:
        out = np.zeros(shape, dtype)
        for name in dtype.names:
            field = out[name]
            base, sub = dtype[name].base, dtype[name].shape
            field[...] = random_array(rng, base, (*shape, *sub))
        return out
    size = int(np.prod(shape))
    if dtype.kind == "O":
        words = ["", "a", "drystone", "größe", "日本", "x" * 300]
        out = np.empty(size, object)
        out[:] = [words[i] for i in rng.integers(0, len(words), size)]
        return out.reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "U":
        letters = rng.integers(0, 3, (size, dtype.itemsize // 4)).astype("u4")
        codes = np.array([0, 0x61, 0x1F600], "u4")[letters]
        return codes.view(dtype.newbyteorder("=")).reshape(shape).astype(dtype)
    return np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).reshape(shape).copy()


def commits_by_itself(c: dry.Container) -> dry.Writer:
    return c.writer(rank=0, nranks=1)


def in_child(action) -> None:
    """Run `action` in a forked child; its failure fails this test."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            action()
            status = 0
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, message
