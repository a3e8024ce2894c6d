// Decisions of a policy that `drcrm export` wrote, in a browser or in Node:
//
//     const {action, propensity} = decide(policy, {age: 31, price: 12.5, city: null});

const TIME = /^\s*(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?\s*$/;
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const text = (value) => value === null ? "" : typeof value === "boolean" ? (value ? "True" : "False")
  : String(value).replace(/^(0|-?[1-9]\d*)\.0+$/, "$1");
const time = (value) => value === null ? [] : TIME.exec(value).slice(1);
const weekday = (day) => day ? DAYS[new Date(`${day}T00:00Z`).getUTCDay()] : "";

function hash(value) { // MurmurHash3 of the text in UTF-8, 32 bits with sign, seed 0
  const bytes = new TextEncoder().encode(value), turn = (k, by) => k << by | k >>> 32 - by;
  const mix = (k) => Math.imul(turn(Math.imul(k, 0xcc9e2d51), 15), 0x1b873593);
  const word = (start) => [3, 2, 1, 0].reduce((k, at) => k << 8 | bytes[start + at], 0); // a byte past the end is 0
  let h = 0, start = 0;
  for (; start + 4 <= bytes.length; start += 4) h = Math.imul(turn(h ^ mix(word(start)), 13), 5) + 0xe6546b64 | 0;
  h ^= mix(word(start)) ^ bytes.length;
  h = Math.imul(h ^ h >>> 16, 0x85ebca6b);
  h = Math.imul(h ^ h >>> 13, 0xc2b2ae35);
  return h ^ h >>> 16;
}

const TERMS = { // a vector of coefficients, and its factor
  number: (feature, value) => value === null ? [feature.missing, 1] : [feature.coef, (value - feature.mean) / feature.scale],
  category: (feature, value) => [feature.coef[text(value)], 1],
  hour: (feature, value) => [feature.coef[time(value)[1] ?? ""], 1],
  weekday: (feature, value) => [feature.coef[weekday(time(value)[0])], 1],
  hashed(feature, value) {
    const h = hash(text(value));
    return [feature.coef[Math.abs(h) % feature.columns], h < 0 ? -1 : 1];
  },
};

/** Return the probabilities of the actions, or of each label, in the order of `policy.names`. */
export function probabilities(policy, context) {
  const scores = [...policy.intercept];
  for (const feature of policy.features) {
    const value = context[feature.name];
    if (value === undefined) throw new Error(`the context has no ${feature.name}; a missing value is null`);
    const [coef, factor] = TERMS[feature.type](feature, value);
    coef?.forEach((weight, action) => { scores[action] += factor * weight; });
  }
  if (!scores.every(Number.isFinite)) throw new Error("a feature is not a finite number");
  if (policy.kind === "labels") return scores.map((score) => 1 / (1 + Math.exp(-score)));
  const weights = scores.map((score) => Math.exp(score - Math.max(...scores)));
  const total = weights.reduce((sum, weight) => sum + weight);
  return weights.map((weight) => weight / total);
}

/** Draw an action, the name or an object of labels, and return it with its probability. */
export function decide(policy, context, random = Math.random) {
  const p = probabilities(policy, context);
  if (policy.kind === "labels") {
    const labels = p.map((probability) => random() < probability ? 1 : 0);
    const propensity = labels.reduce((product, label, at) => product * (label ? p[at] : 1 - p[at]), 1);
    return {action: Object.fromEntries(labels.map((label, at) => [policy.names[at], label])), propensity};
  }
  let left = random(), action = 0;
  while (action < p.length - 1 && left >= p[action]) left -= p[action++];
  return {action: policy.names[action], propensity: p[action]};
}
