"""The same arithmetic on every x86-64 processor with AVX2 and FMA, those of Intel since 2013 and of AMD since 2015.

OpenBLAS and numpy choose their kernels by the processor. Those for AVX-512 sum in another order and have exponentials
and logarithms of their own: the last bits differ, and with them a fit.
"""

from collections.abc import MutableMapping
from pathlib import Path

KERNELS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # what numpy 2.4 has beyond X86_V3
}


def choose_kernels(environment: MutableMapping[str, str], cpuinfo: str | Path = "/proc/cpuinfo") -> None:
    """Choose the kernels of numpy and OpenBLAS in an environment in which neither is loaded yet.

    Results must not depend on the user's own choice, which is overruled. A processor without AVX2 and FMA, or that is
    no x86-64, keeps its kernels.
    """
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    features = next((line.split() for line in lines if line.startswith("flags")), [])
    if {"avx2", "fma"} <= {*features}:
        environment.pop("NPY_ENABLE_CPU_FEATURES", None)  # numpy takes one of the two
        environment.update(KERNELS)
