"""Steps of the workflow: functions of named files and settings, which the rules in ``workflow/rules`` name MODULE.STEP.

A rule's command shows all arguments: ``python -P -m drcrm.paper.steps MODULE.STEP --NAME=PATH … --settings=JSON``.
"""
