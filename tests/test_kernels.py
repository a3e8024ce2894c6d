"""The kernels that numpy and OpenBLAS use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drcrm.__main__ import main as drcrm_main
from drcrm.experiments.steps.__main__ import main as step_main
from drcrm.kernels import KERNELS, choose_kernels

CPUINFO = Path("/proc/cpuinfo")
MODERN = "processor : 0\nflags\t\t: fpu sse2 avx fma avx2 bmi2{}\n"
SCRIPT = """
import os, json
from drcrm.kernels import choose_kernels
choose_kernels(os.environ)
import numpy as np, scipy.linalg
from numpy.lib.introspect import opt_func_info
from threadpoolctl import threadpool_info
kernels = {kernel["current"] for function in opt_func_info().values() for kernel in function.values()}
print(json.dumps([sorted(kernels), [library["architecture"] for library in threadpool_info()]]))
"""


@pytest.mark.parametrize("extensions", ["", " avx512f avx512bw avx512vl"])
def test_kernels_replace_the_users_choice(tmp_path, extensions):
    (tmp_path / "cpuinfo").write_text(MODERN.format(extensions))
    environment = {"OPENBLAS_CORETYPE": "SkylakeX", "NPY_ENABLE_CPU_FEATURES": "X86_V4", "HOME": "/"}
    choose_kernels(environment, tmp_path / "cpuinfo")
    assert environment == {**KERNELS, "HOME": "/"}


@pytest.mark.parametrize("text", [MODERN.replace(" avx2", ""), "processor : 0\nFeatures : fp asimd\n", None])
def test_other_processors_keep_their_kernels(tmp_path, text):
    if text:
        (tmp_path / "cpuinfo").write_text(text)
    environment = {"OPENBLAS_CORETYPE": "Nehalem"}
    choose_kernels(environment, tmp_path / "cpuinfo")
    assert environment == {"OPENBLAS_CORETYPE": "Nehalem"}


@pytest.mark.parametrize(("main", "arguments"), [(drcrm_main, ["check", "none"]), (step_main, ["none"])])
def test_only_steps_choose_kernels(main, arguments, monkeypatch, tmp_path):
    """OpenBLAS 0.3.34 crashes with other kernels than the processor's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", environment := {"HOME": "/"})
    assert main(arguments) in (1, 2)
    is_step = main is step_main and {"avx2", "fma"} <= {*CPUINFO.read_text().split()}
    assert KERNELS.keys() & environment.keys() == (KERNELS.keys() if is_step else set())


@pytest.mark.skipif(
    not (CPUINFO.exists() and {"avx2", "fma"} <= {*CPUINFO.read_text().split()}), reason="for x86-64 with AVX2 and FMA"
)
def test_no_function_of_numpy_uses_a_kernel_beyond_avx2():
    command = [sys.executable, "-W", "always", "-c", SCRIPT]
    process = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    kernels, architectures = json.loads(process.stdout)
    assert {kernel.partition("(")[0] for kernel in kernels} <= {"baseline", "X86_V3"}
    assert set(architectures) == {"Haswell"}
    assert process.stderr == ""
