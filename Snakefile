include: "workflow/Snakefile"


# Snakemake takes no default target from an included file.
rule default:
    input:
        rules.all.input,
