"""Users' own logs, by name: a policy, the answer and the report."""


rule learn:
    input:
        log=lambda wildcards: config["logs"][wildcards.log]["path"],
    output:
        **OWN_LOG,
    log:
        "results/{log}/logs/learn.log",
    benchmark:
        "results/{log}/benchmarks/learn.tsv"
    conda:
        "../../environment.yml"
    resources:
        **LEARN_RESOURCES,
    params:
        code=lambda wildcards: whole_package(without=["experiments"]),
        mapping=lambda wildcards: mapping_of(config, wildcards.log),
    shell:
        "drcrm learn {input.log:q} --config {params.mapping:q} --output {output.policy} --json {output.answer}"
        " --report {output.page} > {output.text} 2> {log}"
