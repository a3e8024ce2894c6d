"""The same question asked in two ways: faults at the joint of two features show as different answers.

- ``options``: 13 options, the pairs of their values that drcrm must refuse, and rows that cover all other pairs.
- ``logs``: a small log for a row, drawn from a known truth, and its files in each format.
- ``policies``: a fixed policy, computed by numpy from raw contexts, and its files for each encoding.
- ``cases``, ``commands``: ask drcrm's commands about the policy on the log.
- ``relations``, ``decisions``: relations between answers, each for the rows to which it applies.
- ``planting``: plant a fault in drcrm while it runs.

``python -m pytest tests/matrix -k row_17`` runs a row. ``make test`` runs a few rows, ``make test-matrix`` everything.
``make test-matrix SEED=3`` draws other logs.
To add an option, extend ``OPTIONS`` and ``logs``. To add a relation, decorate a function with ``relation`` and add a
fault that it catches to ``test_planted_faults.py``.
"""
