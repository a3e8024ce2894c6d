"""Steps of the pipeline: functions ``step(files, settings)``, which the rules in ``workflow/rules`` name MODULE.STEP.

``files`` maps names to paths or lists of paths, read or written. ``settings`` maps names to values.
"""
