"""The kernels of numpy and OpenBLAS that a step runs with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drcrm.kernels import KERNELS, choose_kernels

CPUINFO = Path("/proc/cpuinfo")
MODERN = "processor : 0\nflags\t\t: fpu sse2 avx fma avx2 bmi2{}\n"
ASKED = """
import os, json
from drcrm.kernels import choose_kernels
choose_kernels(os.environ)
import numpy as np, scipy.linalg
from numpy.lib.introspect import opt_func_info
from threadpoolctl import threadpool_info
kernels = {each["current"] for found in opt_func_info().values() for each in found.values()}
print(json.dumps([sorted(kernels), [each["architecture"] for each in threadpool_info()]]))
"""


@pytest.mark.parametrize("more", ["", " avx512f avx512bw avx512vl"])
def test_are_the_same_whatever_comes_after_avx2(tmp_path, more):
    """Also where a user has chosen others, on which results must not depend."""
    (tmp_path / "cpuinfo").write_text(MODERN.format(more))
    environment = {"OPENBLAS_CORETYPE": "SkylakeX", "NPY_ENABLE_CPU_FEATURES": "X86_V4", "HOME": "/"}
    choose_kernels(environment, tmp_path / "cpuinfo")
    assert environment == {**KERNELS, "HOME": "/"}


@pytest.mark.parametrize("text", [MODERN.replace(" avx2", ""), "processor : 0\nFeatures : fp asimd\n", None])
def test_of_other_processors_stay(tmp_path, text):
    if text:
        (tmp_path / "cpuinfo").write_text(text)
    environment = {"OPENBLAS_CORETYPE": "Nehalem"}
    choose_kernels(environment, tmp_path / "cpuinfo")
    assert environment == {"OPENBLAS_CORETYPE": "Nehalem"}


@pytest.mark.skipif(
    not (CPUINFO.exists() and {"avx2", "fma"} <= {*CPUINFO.read_text().split()}), reason="for x86-64 with AVX2 and FMA"
)
def test_are_what_numpy_and_openblas_then_run():
    """No function of numpy has a kernel beyond AVX2, whatever its features are called; and nothing is said of it."""
    command = [sys.executable, "-W", "always", "-c", ASKED]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    kernels, architectures = json.loads(done.stdout)
    assert {kernel.partition("(")[0] for kernel in kernels} <= {"baseline", "X86_V3"}
    assert set(architectures) == {"Haswell"}
    assert done.stderr == ""
