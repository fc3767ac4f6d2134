"""Spack's package of Drystone."""

from spack.package import depends_on, license, run_before, variant, version, which
from spack_repo.builtin.build_systems.python import PythonPackage


class PyDrystone(PythonPackage):
    """An array store for simulations and for the people who analyse them."""

    homepage = "https://github.com/drystone-project/drystone"
    url = "https://github.com/drystone-project/drystone/archive/refs/tags/v0.1.0.tar.gz"
    git = "https://github.com/drystone-project/drystone.git"

    license("MIT OR Apache-2.0")

    version("main", branch="main")
    version("0.1.0")  # sha256: set at each release (packaging/README.md)

    variant("xarray", default=True, description="Open containers with xarray and Dask")
    variant("files", default=True, description="Import and export HDF5, netCDF and Zarr; pictures")

    depends_on("c", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-maturin@1.16:1", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("py-numpy@2.0:", type=("build", "run"))

    with_xarray = ("py-xarray@2025.6:", "py-dask@2025.1: +array")
    with_files = ("py-h5py@3.11:", "py-netcdf4@1.7:", "py-zarr@3.1:", "py-matplotlib@3.9:")
    for package in with_xarray:
        depends_on(package, type="run", when="+xarray")
    for package in with_files:
        depends_on(package, type="run", when="+files")

    @run_before("install")
    def hdf5_plugin(self) -> None:
        """The plug-in for HDF5, which the wheel carries."""
        which("bash", required=True)("tools/hdf5_plugin.sh", "--release")
