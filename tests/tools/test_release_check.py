"""What a release says of itself is checked, and wrong versions, notes and wheels are named."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
release_check = pytest.importorskip("release_check")
oldest = pytest.importorskip("oldest")

INSIDE = [
    "drystone/_core.abi3.so",
    "drystone/_core.pyi",
    "drystone/py.typed",
    "drystone/hdf5/plugin/libdrystone_hdf5_vol.so",
    "drystone-0.1.0.data/data/share/man/man1/drystone.1",
    "drystone-0.1.0.dist-info/licenses/LICENSE-MIT",
    "drystone-0.1.0.dist-info/licenses/LICENSE-APACHE",
]


@pytest.fixture
def tree(tmp_path):
    """A copy of what the check reads."""
    names = [
        "Cargo.toml",
        "pyproject.toml",
        "CHANGELOG.md",
        "packaging/conda/recipe.yaml",
        "packaging/spack/packages/py_drystone/package.py",
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("crates/*/Cargo.toml")),
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_the_tree_is_consistent(tree):
    assert list(release_check.versions(tree)) == []
    assert list(release_check.notes(tree, None)) == []
    done = subprocess.run(
        [sys.executable, ROOT / "tools/release_check.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Cargo.toml", 'crates/dataset", version = "0.1.0"', 'crates/dataset", version = "0.2.0"'),
        ("crates/plan/Cargo.toml", "version.workspace = true", 'version = "0.3.0"'),
        ("packaging/conda/recipe.yaml", 'version: "0.1.0"', 'version: "0.0.9"'),
        ("packaging/spack/packages/py_drystone/package.py", 'version("0.1.0")', 'version("0.0.9")'),
    ],
)
def test_another_version_is_named_with_its_place(tree, name, old, new):
    edit(tree / name, old, new)
    (fault,) = release_check.versions(tree)
    assert fault.startswith(f"{name}:")
    assert "0.1.0" in fault


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("pyproject.toml", '"numpy>=2.0"', '"numpy>=2.1"', "numpy is asked for as 2.0"),
        ("pyproject.toml", '"zarr>=3.1"', '"zarr>=3.2"', "py-zarr is asked for as 3.1"),
        ("Cargo.toml", 'rust-version = "1.95"', 'rust-version = "1.96"', "rust is asked for as 1.95"),
        ("packaging/conda/recipe.yaml", "    - rust >=1.95\n", "", "rust is asked for as any"),
        (
            "packaging/spack/packages/py_drystone/package.py",
            '"py-numpy@2.0:"',
            '"py-numpy@1.26:"',
            "py-numpy is asked for as 1.26",
        ),
    ],
)
def test_recipes_that_need_other_versions_are_named(tree, name, old, new, says):
    assert list(release_check.needs(tree)) == []
    edit(tree / name, old, new)
    faults = list(release_check.needs(tree))
    assert faults
    assert all(says in fault for fault in faults)


def test_the_conda_recipe_is_rendered_for_each_python():
    rattler_build = pytest.importorskip("rattler_build", reason="pip install py-rattler-build")
    recipe = rattler_build.Stage0Recipe.from_file(str(ROOT / "packaging/conda/recipe.yaml"))
    # What the channel conda-forge pins.
    pinned = "python: [3.11.*, 3.13.*]\nc_stdlib: [sysroot]\nc_stdlib_version: ['2.28']\n"
    variants = rattler_build.VariantConfig.from_yaml(pinned)
    found = [one.recipe.to_dict() for one in recipe.render(variants)]
    assert [one["build"]["string"][:5] for one in found] == ["py311", "py313"]
    for one in found:
        assert one["package"] == {"name": "drystone", "version": release_check.version_of(ROOT)}
        assert {"rust >=1.95", "gcc_linux-64", "rust_linux-64"} <= set(one["requirements"]["build"])
        scripts = [line for line in one["build"]["script"] if "tools/" in line]
        assert all((ROOT / path).exists() for line in scripts for path in re.findall(r"tools/\S+", line))
        assert scripts


def test_a_release_has_a_date_and_its_own_tag(tree):
    assert "give it the date" in "".join(release_check.notes(tree, "v0.1.0"))
    text = (tree / "CHANGELOG.md").read_text()
    (tree / "CHANGELOG.md").write_text(re.sub(r"## 0\.1\.0, .+", "## 0.1.0, 2026-12-01", text, count=1))
    assert list(release_check.notes(tree, "v0.1.0")) == []
    assert "the tag is v0.2.0" in "".join(release_check.notes(tree, "v0.2.0"))
    (tree / "CHANGELOG.md").write_text("## 0.2.0, unreleased\n\n## 0.1.0, unreleased\n")
    faults = "".join(release_check.notes(tree, None))
    assert "begins with 0.2.0" in faults
    assert "0.1.0 is of 'unreleased'" in faults


def wheel(folder, name, inside=INSIDE):
    with zipfile.ZipFile(folder / name, "w") as file:
        for one in inside:
            file.writestr(one, "")


def test_a_wheel_is_old_enough_and_whole(tmp_path):
    assert "no wheel" in "".join(release_check.wheels(tmp_path, "0.1.0"))
    wheel(tmp_path, "drystone-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl")
    wheel(tmp_path, "drystone-0.1.0-cp311-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl")
    assert list(release_check.wheels(tmp_path, "0.1.0")) == []
    wheel(tmp_path, "drystone-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl")
    wheel(tmp_path, "drystone-0.2.0-cp311-abi3-manylinux_2_28_x86_64.whl")
    wheel(tmp_path, "drystone-0.1.0-cp311-abi3-manylinux_2_24_x86_64.whl", INSIDE[:3])
    faults = list(release_check.wheels(tmp_path, "0.1.0"))
    assert [fault.partition(":")[2][:12] for fault in faults] == [
        " nothing in ",
        " nothing in ",
        " nothing in ",
        " needs a C l",
        " of version ",
    ]


def test_the_oldest_versions_are_those_of_the_project():
    project = {
        "dependencies": ["numpy>=2.0"],
        "optional-dependencies": {"x": ["dask[array]>=2025.1", "h5py>=3.10.2"]},
    }
    assert oldest.requirements(project, ["x"]) == ["numpy==2.0.*", "dask[array]==2025.1.*", "h5py==3.10.2"]
    with pytest.raises(ValueError, match="no extra"):
        oldest.requirements(project, ["y"])
    with pytest.raises(ValueError, match="no oldest"):
        oldest.oldest("numpy")


def test_the_workflows_and_scripts_name_files_that_are_there():
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        for script in re.findall(r"\btools/[a-z_]+\.(?:py|sh)\b", workflow.read_text()):
            assert (ROOT / script).exists(), f"{workflow.name} runs {script}"
