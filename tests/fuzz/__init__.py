"""Inputs by generation: a module for each kind, which makes a case from a random generator, and judges what came of it.

A case either works, and is then compared with an independent simple reading of it, or gets the one-line error.
``python -m fuzz`` runs many; tests/test_fuzz.py some, drawn and made small by hypothesis.
"""

from . import arguments, certificates, chains, configs, fetching, fits, libsvm, logs, npz, streams, stress, user_logs

KINDS = {
    module.KIND.name: module.KIND
    for module in (
        libsvm,
        streams,
        fetching,
        npz,
        logs,
        chains,
        configs,
        fits,
        arguments,
        certificates,
        stress,
        user_logs,
    )
}
