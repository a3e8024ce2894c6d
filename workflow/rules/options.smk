"""What rules read, and tell the steps, beyond the wildcards of a job."""

# In a module, under its prefix.
ORIGIN = str(workflow.modifier.modify_path("resources/{dataset}/origin.json"))


def mirror(wildcards, output):
    """Where fetch looks first. What asks for the output is not compared between runs: the mirror may change."""
    return ["--mirror", config["mirror"]] if config["mirror"] else []


def local_digests(wildcards):
    """What of a data set's content comes from a local mirror, by digest; the place of the mirror is not compared."""
    dataset = config["datasets"][wildcards.dataset]
    places = Source(mirror=config["mirror"], sha256=dataset["sha256"])
    record = read_record(ORIGIN.format(dataset=wildcards.dataset))
    return local_contents(places, [*dataset.get("train", []), *dataset.get("test", [])], record)


def own_code(wildcards):
    """The file of a risk of one's own, ``module:Class``, where it is in the working folder."""
    name, _, _ = config["algorithms"][wildcards.algorithm]["estimator"].partition(":")
    file = Path(*name.split(".")).with_suffix(".py")
    return [local_path(file)] if file.exists() else []


def known_cost_model(wildcards):
    """The cost model of a log, where the experiment has one."""
    used = lookups.uses_cost_model(config, wildcards.experiment)
    return {"cost_model": f"{LOG}/cost_model.npz".format(**wildcards)} if used else {}


def known_to_fit(wildcards):
    """What a fit reads beside its log: π0 where it starts there, the cost model where the experiment has one."""
    starts_there = lookups.uses_logging_policy(config["algorithms"][wildcards.algorithm])
    policy = {"logging": f"{RUN}/logging.npz".format(**wildcards)} if starts_there else {}
    return policy | known_cost_model(wildcards)


def fits(wildcards):
    """The fits of one run."""
    run = wildcards.dataset, int(wildcards.replays), int(wildcards.seed)
    algorithms = lookups.run_algorithms(config, wildcards.experiment, *run)
    return {name: f"{LOG}/{name}.npz".format(**wildcards) for name in algorithms}


def shown(wildcards, part):
    """Which part of which experiment is shown, this or the figure of a job, of the data set of the job or of all."""
    datasets = [wildcards.dataset] if "dataset" in wildcards.keys() else []
    return config, wildcards.experiment, part or wildcards.figure, datasets


def plan(part=""):
    """The plan of the tables, the overview or a figure, as JSON."""
    return lambda wildcards: lookups.planned(*shown(wildcards, part)).json()


def words(part=""):
    """What the caption of the tables, the overview or a figure says of it."""
    return lambda wildcards: lookups.caption_words(*shown(wildcards, part))


def made_with(name):
    """An experiment, or the theory, with its data sets and algorithms, as provenance wants them."""
    return json.dumps(lookups.made_with(config, name), sort_keys=True)
