"""The same numpy and OpenBLAS kernels on every x86-64 processor with AVX2, so that results are bitwise reproducible.

numpy and OpenBLAS choose kernels by the processor. Their AVX-512 kernels sum in a different order and use different
exponentials and logarithms, so the last bits of a fit differ. The AVX2 kernels run on Intel processors since 2013 and
on AMD processors since 2015.
"""

from collections.abc import MutableMapping
from pathlib import Path

KERNELS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # all features of numpy 2.4 above X86_V3
}


def choose_kernels(environment: MutableMapping[str, str], cpuinfo: str | Path = "/proc/cpuinfo") -> None:
    """Set the environment variables that choose the kernels; call it before numpy is imported.

    The variables replace the user's values, because results must not depend on them. A processor without AVX2 and FMA
    keeps its kernels.
    """
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    features = next((line.split() for line in lines if line.startswith("flags")), [])
    if {"avx2", "fma"} <= {*features}:
        environment.pop("NPY_ENABLE_CPU_FEATURES", None)  # numpy fails if both variables are set
        environment.update(KERNELS)
