"""Raw files become variables: a text in the dataset language describes their layout (`drystone import --declare`)."""

import shutil
import subprocess

import drystone as dry
import numpy as np
import pytest
from mount_rig import command, mounted, needs_fuse

# The output of a Fortran program: column by column, with the time in front.
LAYOUT = """
const NX = 4
const NY = 3
dataset { var time[1] float64 steps; var T[NX, NY] float64 steps; var id[NX] int32 steps }
fragment dump {
    var t[i:1] = time[i]
    var T[i:NX, j:NY] col = T[i, j]
    var id[i:NX] = id[i]
}
fragment once { var only[i:NX] = id[i] }
"""
FORTRAN = """
program dump
  use, intrinsic :: iso_fortran_env, only: real64, int32
  implicit none
  real(real64) :: time(1), T(4, 3)
  integer(int32) :: id(4), i, j, step, unit
  character(len=1024) :: path
  call get_command_argument(1, path)
  open (newunit=unit, file=path, access="stream", form="unformatted", status="replace")
  do step = 0, 2
    time = step * 0.5_real64
    T = reshape([((step * 100.0_real64 + 10 * i + j, i = 0, 3), j = 0, 2)], [4, 3])
    id = [(step + i, i = 0, 3)]
    write (unit) time, T, id
  end do
  close (unit)
end program dump
"""


def steps():
    for step in range(3):
        i, j = np.indices((4, 3))
        yield step * 0.5, step * 100.0 + 10 * i + j, np.arange(4, dtype="i4") + step


def dumped(path):
    with path.open("wb") as file:
        for time, values, ids in steps():
            file.write(np.float64(time).tobytes() + values.tobytes(order="F") + ids.tobytes())


def check(c, first=0):
    for step, (time, values, ids) in enumerate(steps(), first):
        assert c["time"][step] == time
        np.testing.assert_array_equal(c["T"][step], values)
        np.testing.assert_array_equal(c["id"][step], ids)


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "dump.drepl").write_text(LAYOUT)
    return tmp_path / "dump.drepl"


def test_a_dump_becomes_variables_and_the_next_one_more_steps(tmp_path, layout):
    dumped(tmp_path / "dump")
    run = tmp_path / "run.dry"
    for number in (1, 2):
        done = dry.import_file(tmp_path / "dump", run, declare=layout, fragment="dump")
        assert (done.format, done.lost) == ("raw", [])
        assert {v.name: v.shape for v in done.variables} == {
            "time": (3 * number, 1),
            "T": (3 * number, 4, 3),
            "id": (3 * number, 4),
        }
    with dry.open(run) as c:
        assert len(c.steps) == 6
        check(c)
        check(c, first=3)


@needs_fuse
def test_what_a_fortran_program_writes_through_a_mount_becomes_variables(tmp_path, layout):
    if shutil.which("gfortran") is None:
        pytest.skip("needs gfortran")
    run = tmp_path / "run.dry"
    dry.create(run).close()
    (tmp_path / "dump.f90").write_text(FORTRAN)
    subprocess.run(["gfortran", "dump.f90", "-o", "dump"], cwd=tmp_path, check=True)
    with mounted(run, tmp_path / "at", "--write") as at:
        subprocess.run([tmp_path / "dump", at / "files" / "restart"], check=True)
        words = ["import", at / "files" / "restart", run, "--declare", layout, "--fragment", "dump"]
        subprocess.run(command(*words), check=True, capture_output=True)
        for name, want in zip(["time", "T", "id"], zip(*steps(), strict=True), strict=True):
            shown = np.load(at / f"view/latest/{name}.npy")
            np.testing.assert_array_equal(
                shown.reshape(3, *np.shape(want[0]) or (1,)), np.stack([np.atleast_1d(w) for w in want])
            )
        # The same bytes as an array, in place, without a copy.
        with dry.open(run) as c:
            step = c.fragment("dump")
            held = np.memmap(at / "files" / "restart", "u1", "r", shape=(3, step.nbytes))
            np.testing.assert_array_equal(step.arrays(held[2])["T"], c["T"][2])
        del held


def test_a_file_that_does_not_fit_changes_nothing(tmp_path, layout):
    run = tmp_path / "run.dry"
    (tmp_path / "dump").write_bytes(bytes(100))
    for fragment, said in [
        ("dump", "100 bytes.*120 bytes per step"),
        ("nothing", "dump"),
        ("once", "16 bytes per step"),
    ]:
        with pytest.raises(dry.DrystoneError, match=said):
            dry.import_file(tmp_path / "dump", run, declare=layout, fragment=fragment)
        assert not run.exists()
    with pytest.raises(dry.InvalidArgumentError, match="both"):
        dry.import_file(tmp_path / "dump", run, declare=layout)
    layout.write_text("fragment {")
    with pytest.raises(dry.InvalidArgumentError):
        dry.import_file(tmp_path / "dump", run, declare=layout, fragment="dump")
