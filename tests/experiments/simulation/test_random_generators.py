"""Random generators of the pipeline's steps."""

from itertools import product

from drcrm.experiments.simulation.replay import generator


def test_every_data_set_seed_and_step_has_draws_of_its_own():
    axes = [*product(("toy", "digits"), (0, 1), ("split", "replay"))]
    assert len({generator(*values).random() for values in axes}) == len(axes)
