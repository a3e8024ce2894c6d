"""The cost model, fits along each algorithm's grid, classifiers, and the losses of what they choose."""


rule cost_model:
    input:
        code("cost_model"),
        log=f"{LOG}/log.npz",
    output:
        f"{LOG}/cost_model.npz",
    log:
        f"{LOG}/logs/cost_model.log",
    benchmark:
        f"{LOG}/benchmarks/cost_model.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("cost_model"),
    message:
        "cost model on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "drcrm cost_model --log {input.log} --output {output} 2> {log}"


rule fit:
    input:
        code("fit"),
        own_code,
        unpack(known_to_fit),
        log=f"{LOG}/log.npz",
    output:
        f"{LOG}/{{algorithm}}.npz",
    log:
        f"{LOG}/logs/{{algorithm}}.log",
    benchmark:
        f"{LOG}/benchmarks/{{algorithm}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("fit"),
    params:
        learner=lambda wildcards: lookups.fit_options(config, wildcards.experiment, wildcards.algorithm),
        known=lambda wildcards, input: " ".join(f"--{n.replace('_', '-')} {input[n]}" for n in known_to_fit(wildcards)),
    message:
        "{wildcards.algorithm} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "drcrm fit --log {input.log} {params.known} {params.learner:q} --output {output} 2> {log}"


rule classify:
    input:
        code("classify"),
        log=f"{LOG}/log.npz",
        test="resources/{dataset}/test.npz",
    output:
        f"{LOG}/{{classifier}}.npz",
    log:
        f"{LOG}/logs/{{classifier}}.log",
    benchmark:
        f"{LOG}/benchmarks/{{classifier}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("classify"),
    params:
        classifier=lambda wildcards: lookups.classifier_options(config, wildcards.classifier),
    message:
        "{wildcards.classifier} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "drcrm classify --log {input.log} --test {input.test} {params.classifier}"
        " --dataset {wildcards.dataset} --seed {wildcards.seed} --output {output} 2> {log}"


rule evaluate:
    input:
        unpack(learned),
        unpack(known_cost_model),
        code=code("evaluate"),
        test="resources/{dataset}/test.npz",
        log=f"{LOG}/log.npz",
        logging=f"{RUN}/logging.npz",
        skyline=f"{RUN}/skyline.npz",
    output:
        metrics=f"{LOG}/metrics.csv",
        grids=f"{LOG}/grids.csv",
    log:
        f"{LOG}/logs/evaluate.log",
    benchmark:
        f"{LOG}/benchmarks/evaluate.tsv"
    conda:
        "../../environment.yml"
    resources:
        **asked("evaluate"),
    params:
        learned=lambda wildcards, input: lookups.learned_options(config, {n: input[n] for n in learned(wildcards)}),
        known=lambda wildcards, input: f"--cost-model {input.cost_model}" if known_cost_model(wildcards) else "",
        selection=option("selection"),
        absent=option("absent_label_score"),
        clicks=option("click_rates"),
    message:
        "evaluate on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "drcrm evaluate --test {input.test} --log {input.log} --logging {input.logging} --skyline {input.skyline}"
        " {params.known} {params.learned} --selection {params.selection} --absent-label-score {params.absent}"
        " --click-rates {params.clicks} --replay-count {wildcards.replays} --dataset {wildcards.dataset} --seed {wildcards.seed}"
        " --output {output.metrics} --output-grids {output.grids} 2> {log}"
