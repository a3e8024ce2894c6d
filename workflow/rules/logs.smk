"""Users' own logs, by name: a policy, the answer and the report."""

LEARN_RESOURCES = {
    "mem_mb": lambda wildcards, input, attempt: attempt * (1000 + 30 * input.size_mb),
    "runtime": lambda wildcards, input, attempt: attempt * (15 + input.size_mb),
}


rule learn:
    input:
        log=lambda wildcards: config["logs"][wildcards.log]["path"],
    output:
        policy="results/{log}/policy.npz",
        answer="results/{log}/answer.json",
        page="results/{log}/report.html",
        text="results/{log}/answer.txt",
    log:
        "results/{log}/logs/learn.log",
    resources:
        **LEARN_RESOURCES,
    params:
        code=lambda wildcards: code_digest(SOURCE, "paper"),
        mapping=lambda wildcards: runs.mapping_of(config, wildcards.log),
    shell:
        "drcrm learn {input.log:q} --config {params.mapping:q} --output {output.policy} --json {output.answer}"
        " --report {output.page} > {output.text} 2> {log}"
