"""Steps of the pipeline. Each is a function ``step(inputs, outputs, parameters)``, listed in ``STEPS``.

``inputs`` and ``outputs`` map names to paths or lists of paths. ``parameters`` is one JSON object. The rules in
``workflow/rules`` run ``python -P -m drcrm.experiments.steps STEP``. The first line of standard input is the JSON
object ``{"input": …, "output": …}``, the second one has the parameters.
"""

STEPS = {  # name of a step and of its function → its module
    "fetch": "fetch",
    "fetch_file": "fetch",
    "split": "logged_data",
    "log_crf": "logged_data",
    "skyline": "logged_data",
    "replay": "logged_data",
    "cost_model": "learning",
    "fit": "learning",
    "classify": "learning",
    "evaluate": "evaluate",
    "collect": "evaluate",
    "tables": "tables",
    "overview": "figures",
    "figure": "figures",
    "provenance": "provenance",
    "theory_table": "theory",
    "theory_figure": "figures",
}
