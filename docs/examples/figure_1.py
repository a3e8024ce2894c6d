"""
Draw Figure 1 of the paper
==========================

Figure 1 shows the expected loss of the learned policies against the replay count Δ, the number of times that the
logging policy passes over the training contexts. More passes give more feedback, so the algorithms come closer.

The rows come from the experiment `sample`. `snakemake --cores 2 sample --config mirror=PATH` computes them again.
"""

import matplotlib.pyplot as plt
import pandas as pd

rows = pd.read_csv("../results/sample_metrics.csv.gz").query("selection == 'clipped_snips' and seed < 10")
names = {"cips": "CIPS", "poem": "POEM", "kl_crm": "KL-CRM", "akl_crm": "aKL-CRM"}

# %%
# The mean over 10 seeds, with its standard error.
losses = rows.groupby(["dataset", "algorithm", "replay_count"])["expected_loss"].agg(["mean", "sem"])
print(losses.loc["scene"]["mean"].unstack().loc[[*names], [1, 16, 256]].round(3))

# %%
# One panel per data set.
figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for axes, dataset in zip(panels, ("scene", "yeast"), strict=True):
    for algorithm, name in names.items():
        curve = losses.loc[dataset, algorithm]
        axes.errorbar(curve.index, curve["mean"], curve["sem"], marker="o", markersize=3, capsize=2, label=name)
    axes.set(title=dataset.title(), xlabel="replay count Δ", ylabel="expected Hamming loss, in labels")
    axes.set_xscale("log", base=2)
panels[1].legend()
plt.show()
