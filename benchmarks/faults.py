"""Faults to plant in src/drcrm, one at a time: {what is wrong: (text, faulty text)}.

A text must occur exactly once in src. ``python benchmarks/protection.py --check`` finds texts that no longer do.
"""

FAULTS = {
    "a clipped weight has slope 1, not 0": ("slope[clipped] = 0", "slope[clipped] = 1"),
    "POEM divides the variance by n, not n − 1": ("np.sqrt(variance / (n - 1))", "np.sqrt(variance / n)"),
    "a calibrated radius uses the two-sided quantile": (
        "curvature * ndtri(confidence) ** 2",
        "curvature * ndtri((1 + confidence) / 2) ** 2",
    ),
    "the sums of a KL ball count the distance of its mass twice": (
        "mean + (np.log(top) - 1) * mass + share.sum()",
        "mean + (np.log(top) - 2) * mass + share.sum()",
    ),
    "the χ² ball with a reduced support forgets the rows without weight": (
        "second / 4 + (share.sum() - size)",
        "second / 4",
    ),
    "the residual of DR is cost plus modelled cost": (
        "None if modelled is None else cost - modelled",
        "None if modelled is None else cost + modelled",
    ),
    "the ridge regression does not subtract the mean of the modelled costs": (
        "_weighted_features(self.share * (modelled - self.share @ modelled))",
        "_weighted_features(self.share * modelled)",
    ),
    "a start is tilted towards high costs": (
        "return base - used * prepared.log.actions.score_part(model), used",
        "return base + used * prepared.log.actions.score_part(model), used",
    ),
    "the automatic tilt keeps half of the rows, not a third": ("KEPT_SHARE = 1 / 3", "KEPT_SHARE = 1 / 2"),
    "empirical Bernstein divides by n, not n − 1": ("log_term / (3 * (n - 1))", "log_term / (3 * n)"),
    "a certificate is not adjusted for multiplicity": (
        'check_confidence(confidence, "confidence")) / choices',
        'check_confidence(confidence, "confidence"))',
    ),
    "of equal scores the least robust value is selected": (
        '(max if robust_end == "high"',
        '(min if robust_end == "high"',
    ),
    "a log may have propensity 0": ("(self.propensity <= 0)", "(self.propensity < 0)"),
    "shares of contexts are rounded down": ("math.ceil(fraction * n - 1e-9)", "math.floor(fraction * n + 1e-9)"),
    "the expected Hamming loss swaps right and wrong": (
        '"expected_loss": abs(labels - probability)',
        '"expected_loss": 1 - abs(labels - probability)',
    ),
    "defaults of the configuration overwrite its values": (
        'entry[1].setdefault("label", ',
        'entry[1].__setitem__("label", ',
    ),
    "intervals in tables use the one-sided quantile": (
        "stdtrit(n - 1, 0.975)",
        "stdtrit(n - 1, 0.95)",
    ),
    "p-values are adjusted by Benjamini and Hochberg, not Holm": (
        "np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))",
        "np.maximum.accumulate(p_values[order] * len(order) / np.arange(1, len(order) + 1))",
    ),
    "files are written in place": (
        "part = Path(folder) / path.name\n        yield part\n        if target",
        "part = target\n        yield part\n        if target",
    ),
    "M is the ratio of the 95th and 5th percentiles": (
        "[-(-steps // 10), 9 * steps // 10]",
        "[-(-steps // 20), 19 * steps // 20]",
    ),
    "the greedy action may be ineligible": (
        "np.where(self.eligible, scores, -np.inf)).argmax",
        "np.where(self.eligible, scores, 0)).argmax",
    ),
    "the encoding is fitted to held-out rows too": (
        "fit_encoding(log, training)",
        "fit_encoding(log)",
    ),
    "cloned propensities are not calibrated": (
        "return power_of(log, mean, power), power",
        "return mean, 1.0",
    ),
    "coefficients of one action of K are centred along the wrong axis": (
        "coef - coef.mean(axis=1, keepdims=True)",
        "coef - coef.mean(axis=0, keepdims=True)",
    ),
    "support is relative to the longest list": (
        "self.broadcast(support / self.count_choices())",
        "self.broadcast(0 * self.count_choices() + support / np.max(self.count_choices()))",
    ),
    "the split of a user's log ignores groups": (
        "return np.arange(len(self.Y)) if self.units is None else number_groups(self.units, len(self.Y))",
        "return np.arange(len(self.Y))",
    ),
    "by default the cost model is trusted everywhere": (
        "support: float = field(default=SUPPORT,",
        "support: float = field(default=0.0,",
    ),
    "decimal commas are dropped": (
        'compute.replace_substring(texts, ",", ".")',
        'compute.replace_substring(texts, ",", "")',
    ),
    "a probability above 1 in Vowpal Wabbit's text is read as 1": (
        '_number(label[3] or "nan", "its probability")',
        'min(_number(label[3] or "nan", "its probability"), 1.0)',
    ),
    "the cost of a dsjson label is negated": (
        'Outcome(place, _finite(event, "_label_cost"),',
        'Outcome(place, -_finite(event, "_label_cost"),',
    ),
    "propensity_model is ignored": (
        "imitated_propensities=mapping.propensity_model is not None",
        "imitated_propensities=False",
    ),
    "the lower bound of the verdict has level δ/K, not δ/(2K)": (
        "choices = settings.divisor * (2 if is_lower else 1)",
        "choices = settings.divisor",
    ),
    "the verdict 'worse' needs only the estimate above 0": (
        "return cls(comparison.lower_bound, certificate.bound",
        "return cls(comparison.difference, certificate.bound",
    ),
    "the choice among candidates ignores their number": (
        "(1 - confidence) / choices)\n",
        "1 - confidence)\n",
    ),
    "of equally good values of C the largest is selected": ("if errors < fewest:", "if errors <= fewest:"),
    "the skyline may be the best algorithm of a table": (
        'means = table["mean"].drop(list(ROLES), errors="ignore").dropna()\n    best',
        'means = table["mean"].dropna()\n    best',
    ),
    "p_larger and p_smaller are exchanged": (
        "p_values = larger_p_value(losses[name], reference), larger_p_value(reference, losses[name])",
        "p_values = larger_p_value(reference, losses[name]), larger_p_value(losses[name], reference)",
    ),
    "certify prints the difference of rewards with the sign of costs": (
        "comparison.format(sign * difference)",
        "comparison.format(difference)",
    ),
    "all steps of a run draw the same random numbers": (
        'zlib.crc32(f"{dataset}/{step}".encode())',
        'zlib.crc32(f"{dataset}".encode())',
    ),
    "the replay trains on held-out rows": (
        "train=merged.count - heldout, heldout=heldout",
        "train=merged.count, heldout=heldout",
    ),
    "the digest of a file covers its first block only": (
        'return hashlib.file_digest(stream, "sha256").hexdigest()\n    except',
        "return hashlib.sha256(stream.read(1 << 16)).hexdigest()\n    except",
    ),
    "products of hashed features lack the context's value": (
        '{name}{TIMES}{shared_name}", value * factor)',
        '{name}{TIMES}{shared_name}", value)',
    ),
    "an unknown category is encoded as the first one": (
        "places.get(canonical_text(value), -1)",
        "places.get(canonical_text(value), 0)",
    ),
    "all parts get the values of the first chunks": (
        "chunks[part], values[part])",
        "chunks[part], values[: len(chunks[part])])",
    ),
    "results of threads are out of order": (
        "waiting.append(self.submit(call))\n                yield waiting.popleft().result()",
        "waiting.append(self.submit(call))\n                yield waiting.pop().result()",
    ),
    "the noise of context effects ignores counts": ("[...] += noise / self._count", "[...] += noise"),
    "the right side of the moments adds the means": (
        "self.loadings / self.size - mean * mean_cost",
        "self.loadings / self.size + mean * mean_cost",
    ),
    "labels are unsupported up to twice the threshold": (
        "by_label = np.where(logging_mean < support / 2, np.maximum",
        "by_label = np.where(logging_mean < support, np.maximum",
    ),
    "successive halving scores on rows of its samples": (
        "place >= n - min(int(VALIDATION * n), LARGEST_SAMPLE)",
        "place < min(int(VALIDATION * n), LARGEST_SAMPLE)",
    ),
    "drift tests ignore groups": (
        "Interval.of(z, log, 1 - LEVEL / tests, value=0.0)",
        "Interval.of(z, log.with_groups(np.arange(len(z))), 1 - LEVEL / tests, value=0.0)",
    ),
    "the leakage test predicts the rows that it is fitted to": (
        "fit(values, target, count * (half != fold))",
        "fit(values, target, count * (half == fold))",
    ),
    "rows with the context of a training row are kept if their action differs": (
        "training = np.isin(rows.contexts, known.contexts[~self.heldout])",
        "training = np.isin(rows.keys, known.keys[~self.heldout])",
    ),
    "the skewness correction has another Cornish–Fisher term": (
        "skewness * (2 * ndtri(confidence) ** 2 + 1) / 6",
        "skewness * (ndtri(confidence) ** 2 - 1) / 6",
    ),
    "a certificate does not charge the unsupported mass": (
        "counted = factor = used + mass",
        "counted = factor = used",
    ),
    "a safe estimator trains on held-out rows": (
        "whole.recount(whole.count * ~is_heldout)",
        "whole.recount(whole.count)",
    ),
    "training rows evaluate the policy": (
        "is_evaluated = ~recognised.training if recognised and recognised.training.any() else None",
        "is_evaluated = None",
    ),
    "predict writes propensities that exceed those of exploration": (
        "return (1 - explore) * mean + explore",
        "return mean + explore",
    ),
    "click costs are not divided by the difference of the rates": (
        "return (cost + right) / (right - wrong)",
        "return cost + right",
    ),
    "a served propensity is that of the most probable action": (
        "float(weights[action] / total)",
        "float(weights.max() / total)",
    ),
    "a missing number in a served context is ignored": ("return self.missing_column, 1.0", "return None, 1.0"),
    "a policy file may contain any type": (
        "unknown = {*skops_io.get_untrusted_types(data=data)} - {*TRUSTED}",
        "unknown, TRUSTED[:] = set(), skops_io.get_untrusted_types(data=data)",
    ),
}
