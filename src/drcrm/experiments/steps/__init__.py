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
    "tables": "report",
    "overview": "report",
    "figure": "report",
    "provenance": "provenance",
}

_DATA = ["errors.py", "files.py", "arrays", "actions", "data"]
_LOGS = [*_DATA, "policies", "cost_models", "experiments/array_files.py", "experiments/simulation"]
_LEARNING = [*_LOGS, "weights.py", "estimates", "risks", "divergences", "optimization", "evaluation", "selection"]
_RESULTS = ["errors.py", "files.py", "reports/roles.py", "selection/score_names.py"]
_REPORT = (
    *("plan", "drawing", "experiment_figures", "figure_data"),
    *("printed_tables", "result_tables", "summary"),
)
PACKAGES = {  # module → packages and files whose code its steps run; a step runs again if this code changes
    "fetch": [*_DATA, "experiments/source_formats.py", "experiments/sources.py"],
    "logged_data": _LOGS,
    "learning": [*_LEARNING, "experiments/classifiers.py"],
    "evaluate": [*_LEARNING, *_RESULTS],
    "report": [*_RESULTS, "reports/data", *(f"reports/{name}.py" for name in _REPORT)],
    "provenance": ["errors.py", "files.py"],
}
