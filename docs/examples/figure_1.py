"""
Draw Figure 1 of the paper
==========================

Figure 1 shows the loss of learned policies, their mean number of wrong labels, against the replay count Δ. Δ is how
often the logging policy acts on each training context. With more passes the log has more feedback, and losses fall. On
Yeast the four algorithms also come closer to each other, on Scene they do not. CIPS and POEM are baselines; KL-CRM and
aKL-CRM are the paper's algorithms.

The rows come from the experiment `sample`. `snakemake --cores 2 sample --config mirror=PATH` computes them again, where
PATH is a folder or URL with the data sets RCV1 subset and TMC2007-500.
"""

import matplotlib.pyplot as plt
import pandas as pd

rows = pd.read_csv("../results/sample_metrics.csv.gz").query("selection == 'clipped_snips' and seed < 10")
names = {"cips": "CIPS", "poem": "POEM", "kl_crm": "KL-CRM", "akl_crm": "aKL-CRM"}

# %%
# The mean over 10 seeds and its standard error, and the means on Scene by replay count:
losses = rows.groupby(["dataset", "algorithm", "replay_count"])["expected_loss"].agg(["mean", "sem"])
print(losses.loc["scene"]["mean"].unstack().loc[[*names], [1, 16, 256]].round(3))

# %%
# One panel per data set. Bars show the standard error.
figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for axes, dataset in zip(panels, ("scene", "yeast"), strict=True):
    for algorithm, name in names.items():
        curve = losses.loc[dataset, algorithm]
        axes.errorbar(curve.index, curve["mean"], curve["sem"], marker="o", markersize=3, capsize=2, label=name)
    axes.set(title=dataset.title(), xlabel="replay count Δ", ylabel="expected Hamming loss, in labels")
    axes.set_xscale("log", base=2)
panels[1].legend()
plt.show()
