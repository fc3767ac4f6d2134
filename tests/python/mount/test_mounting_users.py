"""Ordinary users mount with `fusermount3`: nothing needs root. If the tests run as an ordinary user, all mount tests
show that."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from mount_rig import needs_fuse

pytestmark = needs_fuse
USER = "nobody"
# In a separate mount namespace, where /dev/fuse has the permissions that distributions give it. The user's commands
# follow.
AS_USER = """
mknod -m 666 "$1/fuse" c 10 229
mount --bind "$1/fuse" /dev/fuse
exec su {user} -s /bin/bash -c 'cd "$0"; exec bash -eu "$0/script"' "$1"
"""
SCRIPT = """
wait_for() { for _ in $(seq 200); do ! test -e "$1" || return 0; sleep 0.05; done; echo "no $1" >&2; return 1; }
"$PYTHON" -c 'import drystone as d, numpy as n
with d.create("run.dry") as c:
    c["T"] = n.arange(100.0)'
mkdir at
"$PYTHON" -m drystone mount run.dry at --write > said &
wait_for at/files
test "$(stat -c %U at/files)" = "$USER"
cp at/view/latest/T.npy at/files/kept.npy
cmp at/view/latest/T.npy at/files/kept.npy
"$PYTHON" -m drystone umount at
wait
# A mount that was killed is taken away by the next one.
"$PYTHON" -m drystone mount run.dry at --write > said &
wait_for at/files
kill -9 $!
wait || true
! ls at 2> seen
grep -q "not connected" seen
"$PYTHON" -m drystone mount run.dry at > said &
wait_for at/files
cat at/files/kept.npy > found.npy
kill -TERM $!
wait
test -z "$(ls at)"
"""


def interpreter():
    """A Python that the user may run, with the paths of this one's packages."""
    paths = [str(Path(__file__).parents[3] / "python"), *(p for p in sys.path if p.endswith("site-packages"))]
    environment = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "USER": USER,
        "HOME": "/tmp",
    }
    for python in (sys.executable, shutil.which("python3", path="/usr/bin")):
        words = ["su", USER, "-s", "/bin/bash", "-c", f"'{python}' -c 'import drystone, numpy'"]
        if (
            python
            and subprocess.run(
                words, env=os.environ | environment, capture_output=True, check=False
            ).returncode
            == 0
        ):
            return python, environment
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_an_ordinary_user_mounts_writes_and_unmounts():
    if not all(map(shutil.which, ["fusermount3", "su", "unshare"])):
        pytest.skip("needs fusermount3 (of the package fuse3), su and unshare")
    found = interpreter()
    if found is None:
        pytest.skip(f"no Python that {USER} may run imports drystone")
    python, environment = found
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script").write_text(SCRIPT)
        (folder / "script").chmod(0o644)
        shutil.chown(folder, USER)
        words = ["unshare", "--mount", "bash", "-euc", AS_USER.format(user=USER), "bash", name]
        done = subprocess.run(
            words,
            env=os.environ | environment | {"PYTHON": python},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        np.testing.assert_array_equal(np.load(folder / "found.npy"), np.arange(100.0))
