"""Strong consistency without a server: what is written is committed at once, and what is read is the newest."""

import subprocess
import sys

import drystone as dry
import numpy as np
import pytest


@pytest.mark.parametrize("write", ["T.append([1, 2])", "T[0] = [1, 2]", "T[0:1, 1] = [2]", "c['n'] = [3.0]"])
def test_assignments_are_committed_at_once(tmp_path, write):
    """Symptom: the commit at the end of the step waited for the assignment that it was a part of."""
    dry.create(tmp_path / "c.dry").close()
    code = f"""
import drystone as dry
with dry.open({str(tmp_path / "c.dry")!r}, "r+", consistency="strong") as c:
    T = c.create_variable("T", "f4", (2,), steps=True)
    {write}
    with dry.open({str(tmp_path / "c.dry")!r}) as other:
        print(other["n"][...].tolist() if "n" in c else other["T"][0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    values = {"T[0:1": [0, 2], "c['n'": [3]}.get(write[:5], [1, 2])
    assert eval(done.stdout) == values


def test_names_and_attributes_are_the_newest(tmp_path):
    """Symptom: an open handle with strong consistency had old attributes, and lacked new variables."""
    with dry.create(tmp_path / "c.dry") as w:
        w["T"] = np.arange(4.0)
        with dry.open(tmp_path / "c.dry", consistency="strong") as r:
            T = r["T"]
            w.attrs["a"] = 1
            w["T"].attrs["units"] = "K"
            assert dict(r.attrs) == {"a": 1}
            assert dict(T.attrs) == {"units": "K"}
            w["new"] = [1.0]
            w.commit()
            assert "new" in r
            w.create_group("g")
            assert list(r) == ["T", "g", "new"]
            assert list(r.variables) == ["T", "new"]
            w["later"] = [2.0]
            w.commit()
            assert r["later"][...].tolist() == [2]
            w["last"] = [3.0]
            w.commit()
            assert r.variables["last"][...].tolist() == [3]
