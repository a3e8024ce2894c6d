// Features of type hour, weekday or hashed for score.mjs:
//     const {action, propensity} = decide(policy, {age: 31, when: "2024-05-01 18:00", page: "/home"}, TERMS);

import {NUMBERS_AND_CATEGORIES, text} from "./score.mjs";

const TIME = /^\s*(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?\s*$/;
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

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

export const TERMS = {
  ...NUMBERS_AND_CATEGORIES,
  hour: (feature, value) => [feature.coef[time(value)[1] ?? ""], 1],
  weekday: (feature, value) => [feature.coef[weekday(time(value)[0])], 1],
  hashed(feature, value) {
    const h = hash(text(value));
    return [feature.coef[Math.abs(h) % feature.columns], h < 0 ? -1 : 1];
  },
};
