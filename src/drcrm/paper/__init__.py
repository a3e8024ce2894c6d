"""Experiments of the paper and beyond, run by Snakemake: data, fits, results, tables, figures and reports."""
