"""Logs of one's own, by name: a policy, the answer and its page."""

OWN = "results/{own}"

for own in config["logs"]:

    rule:
        name:
            own
        input:
            log_files(own),
        message:
            f"all of {own}"


rule learn:
    input:
        code("learn", "cli"),
        log=lambda wildcards: config["logs"][wildcards.own]["path"],
    output:
        policy=f"{OWN}/policy.npz",
        answer=f"{OWN}/answer.json",
        page=f"{OWN}/report.html",
        said=f"{OWN}/answer.txt",
    log:
        f"{OWN}/logs/learn.log",
    benchmark:
        f"{OWN}/benchmarks/learn.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda wildcards, input, attempt: attempt * (1000 + 30 * ceil(input.size_mb)),
        runtime=lambda wildcards, input, attempt: attempt * (15 + ceil(input.size_mb)),
    params:
        mapping=lambda wildcards: lookups.mapping_of(config, wildcards.own),
    message:
        "policy of {wildcards.own}"
    shell:
        "drcrm learn {input.log:q} --config {params.mapping:q} --output {output.policy} --json {output.answer}"
        " --report {output.page} > {output.said} 2> {log}"
