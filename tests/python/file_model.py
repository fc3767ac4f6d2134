"""Random operations on a file and on an array of bytes: both must read the same.

As a program: `file_model.py PATH SEED COUNT [mmap]`. After a difference it exits with 1 and prints the operation.
"""

import ctypes
import mmap
import os
import random
import sys

MOST = 256 << 10
PUNCH, ZERO, KEEP = 2, 16, 1
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Differs(Exception):
    """The file differs from the model."""


class Model:
    """A file and its expected content."""

    def __init__(self, path, seed, mapped=False):
        self.path, self.random, self.mapped = path, random.Random(seed), mapped
        self.bytes = bytearray()
        self.flags = os.O_RDWR
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self.done = []

    def close(self):
        os.close(self.fd)

    def range(self):
        at = self.random.randrange(MOST)
        return at, self.random.randrange(1, min(64 << 10, MOST - at) + 1)

    def fresh(self, count):
        return self.random.randbytes(count)

    def grow(self, end):
        if end > len(self.bytes):
            self.bytes.extend(bytes(end - len(self.bytes)))

    def write(self):
        at, count = self.range()
        data = self.fresh(count)
        assert os.pwrite(self.fd, data, at) == count
        self.grow(at + count)
        self.bytes[at : at + count] = data
        return at, count

    def append(self):
        data = self.fresh(self.random.randrange(1, 5000))
        if len(self.bytes) + len(data) > MOST:
            return None
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, data)
        os.close(fd)
        self.bytes += data
        return len(data)

    def read(self):
        at, count = self.range()
        self.same(os.pread(self.fd, count, at), at, count)
        return at, count

    def same(self, found, at, count):
        wanted = bytes(self.bytes[at : at + count])
        if found != wanted:
            place = next(
                (i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b),
                min(len(found), len(wanted)),
            )
            raise Differs(f"byte {at + place} of {at}+{count}: {len(found)} bytes, not {len(wanted)}")

    def truncate(self):
        size = self.random.randrange(MOST)
        os.ftruncate(self.fd, size)
        del self.bytes[size:]
        self.grow(size)
        return size

    def hole(self):
        at, count = self.range()
        assert libc.fallocate(self.fd, PUNCH | KEEP, at, count) == 0, ctypes.get_errno()
        count = max(0, min(count, len(self.bytes) - at))
        self.bytes[at : at + count] = bytes(count)
        return at, count

    def zero(self):
        at, count = self.range()
        assert libc.fallocate(self.fd, ZERO, at, count) == 0, ctypes.get_errno()
        self.grow(at + count)
        self.bytes[at : at + count] = bytes(count)
        return at, count

    def allocate(self):
        at, count = self.range()
        os.posix_fallocate(self.fd, at, count)
        self.grow(at + count)
        return at, count

    def sync(self):
        os.fsync(self.fd)

    def reopen(self):
        os.close(self.fd)
        self.fd = os.open(self.path, self.flags)

    def size(self):
        for found in (os.fstat(self.fd).st_size, os.stat(self.path).st_size):
            if found != len(self.bytes):
                raise Differs(f"{found} bytes long, not {len(self.bytes)}")

    def map_read(self):
        if not self.bytes:
            return None
        at, count = self.range()
        with mmap.mmap(self.fd, len(self.bytes), prot=mmap.PROT_READ) as mapped:
            self.same(mapped[at : at + count], at, count)
        return at, count

    def map_write(self):
        if not self.bytes:
            return None
        at, count = self.range()
        count = max(0, min(count, len(self.bytes) - at))
        data = self.fresh(count)
        with mmap.mmap(self.fd, len(self.bytes)) as mapped:
            mapped[at : at + count] = data
            if self.random.random() < 0.3:
                mapped.flush()
        self.bytes[at : at + count] = data
        return at, count

    def step(self):
        kinds = [(self.write, 12), (self.read, 12), (self.truncate, 3), (self.append, 2), (self.hole, 2)]
        kinds += [(self.zero, 1), (self.allocate, 1), (self.size, 2), (self.sync, 0.3), (self.reopen, 1)]
        if self.mapped:
            kinds += [(self.map_read, 6), (self.map_write, 6)]
        acts, weights = zip(*kinds, strict=True)
        act = self.random.choices(acts, weights)[0]
        try:
            self.done = [*self.done[-8:], (act.__name__, act())]
        except Differs as error:
            raise Differs(f"{act.__name__}: {error}, behind {self.done}") from None

    def run(self, count):
        for _ in range(count):
            self.step()
        self.same(os.pread(self.fd, MOST * 2, 0), 0, MOST * 2)


def main():
    path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model = Model(path, seed, mapped="mmap" in sys.argv[4:])
    try:
        model.run(count)
    except Differs as error:
        sys.exit(str(error))
    model.close()


if __name__ == "__main__":
    main()
