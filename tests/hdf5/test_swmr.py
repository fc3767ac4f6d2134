"""One writer, many readers: a reader in another process sees what was flushed, as a whole, when it refreshes."""

import subprocess
import sys

WRITER = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w", libver="latest") as f:
    d = f.create_dataset("rows", (0, 4), "<f8", maxshape=(None, 4), chunks=(8, 4))
    f.swmr_mode = True
    assert f.swmr_mode and f.mode == "r+"
    print("ready", flush=True)
    for n in map(int, sys.stdin):
        d.resize((n, 4))
        d[:] = np.arange(n)[:, None] + np.arange(4)
        d.flush()
        print(n, flush=True)
"""
READER = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r", swmr=True) as f:
    assert f.swmr_mode
    d = f["rows"]
    print(len(d), flush=True)
    for line in sys.stdin:
        before = len(d)
        d.refresh()
        assert np.array_equal(d[:], np.arange(len(d))[:, None] + np.arange(4))
        print(before, len(d), flush=True)
"""


def test_a_reader_sees_what_was_flushed_when_it_refreshes(connector_environment, tmp_path):
    def start(code):
        return subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "x.h5")],
            env=connector_environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(process, line):
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return process.stdout.readline().split()

    with start(WRITER) as writer:
        assert writer.stdout.readline() == "ready\n"
        with start(READER) as reader:
            assert reader.stdout.readline() == "0\n"
            assert ask(writer, 5) == ["5"]
            assert ask(reader, "") == ["0", "5"]
            assert ask(writer, 12) == ["12"]
            assert ask(reader, "") == ["5", "12"]
            assert ask(reader, "") == ["12", "12"]
            reader.stdin.close()
            assert reader.wait(60) == 0
        writer.stdin.close()
        assert writer.wait(60) == 0
