"""The cost model, fits along each algorithm's grid, and the losses of what they choose."""


rule cost_model:
    input:
        code("cost_model"),
        log=f"{RUN}/replay{{replays}}/log.npz",
    output:
        f"{RUN}/replay{{replays}}/cost_model.npz",
    log:
        f"{RUN}/replay{{replays}}/logs/cost_model.log",
    benchmark:
        f"{RUN}/replay{{replays}}/benchmarks/cost_model.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(cost_model_megabytes),
        runtime=asked_minutes(cost_model_seconds),
    params:
        drcrm=drcrm,
    message:
        "cost model on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "{params.drcrm} cost_model --log {input.log} --output {output} 2> {log}"


rule fit:
    input:
        code("fit"),
        own_code,
        unpack(known_to_fit),
        log=f"{RUN}/replay{{replays}}/log.npz",
    output:
        f"{RUN}/replay{{replays}}/{{algorithm}}.npz",
    log:
        f"{RUN}/replay{{replays}}/logs/{{algorithm}}.log",
    benchmark:
        f"{RUN}/replay{{replays}}/benchmarks/{{algorithm}}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(fit_megabytes),
        runtime=asked_minutes(fit_seconds),
    params:
        drcrm=drcrm,
        learner=learner,
        known=lambda wildcards, input: " ".join(f"--{n.replace('_', '-')} {input[n]}" for n in known_to_fit(wildcards)),
    message:
        "{wildcards.algorithm} on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "{params.drcrm} fit --log {input.log} {params.known} {params.learner} --output {output} 2> {log}"


rule evaluate:
    input:
        unpack(fits),
        unpack(known_cost_model),
        code=code("evaluate"),
        test="resources/{dataset}/test.npz",
        log=f"{RUN}/replay{{replays}}/log.npz",
        logging=f"{RUN}/logging.npz",
        skyline=f"{RUN}/skyline.npz",
    output:
        metrics=f"{RUN}/replay{{replays}}/metrics.csv",
        grids=f"{RUN}/replay{{replays}}/grids.csv",
    log:
        f"{RUN}/replay{{replays}}/logs/evaluate.log",
    benchmark:
        f"{RUN}/replay{{replays}}/benchmarks/evaluate.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=asked_megabytes(evaluate_megabytes),
        runtime=asked_minutes(evaluate_seconds),
    params:
        drcrm=drcrm,
        fits=lambda wildcards, input: " ".join(f"{name}={input[name]}" for name in fits(wildcards)),
        known=lambda wildcards, input: f"--cost-model {input.cost_model}" if known_cost_model(wildcards) else "",
        selection=option("selection"),
        absent=option("absent_label_score"),
    message:
        "evaluate on {wildcards.dataset}, seed {wildcards.seed}, replay count {wildcards.replays}"
    shell:
        "{params.drcrm} evaluate --test {input.test} --log {input.log} --logging {input.logging} --skyline {input.skyline}"
        " {params.known} --fit {params.fits} --selection {params.selection} --absent-label-score {params.absent}"
        " --replay-count {wildcards.replays} --dataset {wildcards.dataset} --seed {wildcards.seed}"
        " --output {output.metrics} --output-grids {output.grids} 2> {log}"
