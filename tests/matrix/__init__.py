"""The same question asked in two ways: faults at the joint of two features show as different answers.

- ``options``: 13 options, the pairs of their values that drcrm must refuse, and rows that cover all other pairs.
- ``logs``: a small log for a row, drawn from a known truth, and its files in each format.
- ``cases``: a fixed policy, computed by numpy from raw contexts, its files for each encoding, and questions about it.
- ``commands``: run drcrm's commands and compare their answers.
- ``relations``: relations between answers, each for the rows to which it applies.
- ``computations``: relations of answers and decisions to numpy, the library and the exported scorer.

``python -m pytest tests/matrix -k row_17`` runs a row. ``make test`` runs a few rows, ``make test-matrix`` everything.
``make test-matrix SEED=3`` draws other logs.
To add an option, extend ``OPTIONS`` and ``logs``. To add a relation, decorate a function with ``relation`` and add a
fault that it catches to ``test_planted_faults.py``.
"""
