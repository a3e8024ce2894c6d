// Decisions of a policy that `drcrm export` wrote, in a browser or in Node:
//     const {action, propensity} = decide(policy, {age: 31, price: 12.5, city: null});
// If the policy has features of type hour, weekday or hashed, add TERMS of score_terms.mjs as third argument.

const DECIMAL = /^-?(?:0|[1-9]\d*)\.\d+$/, EXPONENT = /^(-?)(\d+)\.?(\d*)e([+-]\d+)$/;
const BOOLEANS = {True: "true", TRUE: "true", False: "false", FALSE: "false"};
const own = (object, key) => Object.hasOwn(object, key) ? object[key] : undefined; // not "constructor" of every object

/** Return the text of a category. Whole numbers that JavaScript may have rounded are an error. */
export function text(value) {
  if (value === null) return "";
  if (typeof value === "string") return value.replace(/^(0|-?[1-9]\d*)\.0+$/, "$1");
  if (typeof value !== "bigint" && typeof value !== "boolean" && !Number.isFinite(value))
    throw new Error(`must be a text or a finite number, got ${value}`);
  const plain = plainDecimal(String(value));
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && !/^-?\d{1,15}0*$/.test(plain))
    throw new Error(`must be a text or a BigInt, because numbers beyond 2 ** 53 are rounded, got ${value}`);
  return plain;
}

/** Return the text of a number without an exponent. */
function plainDecimal(text) {
  if (!EXPONENT.test(text)) return text;
  const [, sign, whole, decimals, exponent] = EXPONENT.exec(text), digits = whole + decimals;
  const point = whole.length + Number(exponent); // never inside of the digits that JavaScript writes
  return sign + (point > 0 ? digits.padEnd(point, "0") : `0.${"0".repeat(-point)}${digits}`);
}

/** Return the text that equal categories share: 2.5 for the plain decimal 2.50, true for True; others unchanged. */
export function canonicalText(text) {
  if (!DECIMAL.test(text)) return own(BOOLEANS, text) ?? text;
  const short = text.replace(/\.?0+$/, ""), digits = short.replace(".", "").replace(/^[-0]+/, "").length;
  return short === "-0" ? "0" : short.includes(".") && digits <= 17 ? plainDecimal(String(Number(short))) : short;
}

const FORMAT = "drcrm-linear-policy", VERSION = 3;
const categoryCoef = ({coef}, value) => own(coef, text(value)) ?? own(coef, canonicalText(text(value)));

export const NUMBERS_AND_CATEGORIES = { // a vector of coefficients, and its factor
  number: ({missing, coef, mean, scale}, value) =>
    value === null ? [missing, 1] : [coef, Number.isFinite(value) || value === !!value ? (value - mean) / scale : NaN],
  category: (feature, value) => [categoryCoef(feature, value), 1],
};

/** Return (1 - explore) * probability + explore * uniform. */
const explored = ({explore}, probability, uniform) => (1 - explore) * probability + explore * uniform;

/** Return the probabilities of the actions, or of each label, in the order of `policy.names`. */
export function probabilities(policy, context, terms = NUMBERS_AND_CATEGORIES) {
  const uniform = policy.kind === "labels" ? 0.5 : 1 / policy.names.length;
  return withoutExploration(policy, context, terms).map((probability) => explored(policy, probability, uniform));
}

/** Return the probabilities in decisions that do not explore. */
function withoutExploration(policy, context, terms) {
  if (policy.format !== FORMAT) throw new Error(`the policy has the format ${policy.format}, expected ${FORMAT}`);
  if (policy.version !== VERSION) throw new Error(`the policy has version ${policy.version}, expected ${VERSION}: export it again`);
  const scores = [...policy.intercept];
  for (const feature of policy.features) {
    const value = own(context, feature.name);
    if (value === undefined) throw new Error(`the context has no ${feature.name}; a missing value is null`);
    if (!terms[feature.type]) throw new Error(`${feature.name} is of type ${feature.type}: pass TERMS of score_terms.mjs`);
    try {
      const [coef, factor] = terms[feature.type](feature, value);
      if (!Number.isFinite(factor)) throw new Error(`must be a finite number or null, got ${value}`);
      coef?.forEach((weight, action) => { scores[action] += factor * weight; });
    } catch (error) {
      throw new Error(`${feature.name} ${error.message}`);
    }
  }
  if (!scores.every(Number.isFinite)) throw new Error("the scores are beyond the range of numbers");
  if (policy.kind === "labels") return scores.map((score) => 1 / (1 + Math.exp(-score)));
  const weights = scores.map((score) => Math.exp(score - Math.max(...scores)));
  const total = weights.reduce((sum, weight) => sum + weight);
  return weights.map((weight) => weight / total);
}

/** Draw an action, the name or an object of labels, and return it with its probability. */
export function decide(policy, context, terms = NUMBERS_AND_CATEGORIES, random = Math.random) {
  if (policy.kind === "labels") { // labels are independent only given whether the decision explores
    const p = withoutExploration(policy, context, terms), explores = policy.explore > 0 && random() < policy.explore;
    const labels = p.map((probability) => random() < (explores ? 0.5 : probability) ? 1 : 0);
    const product = labels.reduce((product, label, at) => product * (label ? p[at] : 1 - p[at]), 1);
    const action = Object.fromEntries(labels.map((label, at) => [policy.names[at], label]));
    return {action, propensity: explored(policy, product, 0.5 ** p.length)};
  }
  const p = probabilities(policy, context, terms);
  let left = random(), action = 0;
  while (action < p.length - 1 && left >= p[action]) left -= p[action++];
  return {action: policy.names[action], propensity: p[action]};
}
