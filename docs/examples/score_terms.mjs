// Features of type hour, weekday or hashed for score.mjs:
//     const {action, propensity} = decide(policy, {age: 31, when: "2024-05-01 18:00", page: "/home"}, TERMS);

import {NUMBERS_AND_CATEGORIES, canonicalText, text} from "./score.mjs";

const TIME = new RegExp([ // date, hour, and a time zone that is ignored
  /^\s*(\d{4}-\d{2}-\d{2})(?:[T ]([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)?/,
  /\s*(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?\s*$/,
].map(({source}) => source).join(""));
const DAY_FIRST = /^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d),?/;
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

function time(value) { // the date, or null, and the hour, or ""
  if (value === null || value === "") return [null, ""];
  const iso = String(value).replace(DAY_FIRST, (_, d, m, y) => `${y}-${m.padStart(2, "0")}-${d.padStart(2, "0")}`);
  const [, day, hour = ""] = TIME.exec(iso.replaceAll(",", ".")) ?? [], date = new Date(`${day}T00:00Z`);
  if (!(date.getUTCFullYear() > 0) || date.toISOString().slice(0, 10) !== day) // February 30 is March 1
    throw new Error(`must be a date, or date and time, such as 2024-05-01T13:45+02:00, or null, got ${value}`);
  return [date, hour];
}

function hash(value) { // MurmurHash3 of the text in UTF-8, 32 bits with sign, seed 0
  if (/\p{Surrogate}/u.test(value)) throw new Error("must be Unicode, but has half of a character");
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
  hour: ({coef}, value) => [coef[time(value)[1]], 1],
  weekday: ({coef}, value) => [coef[DAYS[time(value)[0]?.getUTCDay()] ?? ""], 1],
  hashed({coef, columns}, value) {
    const h = hash(canonicalText(text(value)));
    return [coef[Math.abs(h) % columns], h < 0 ? -1 : 1];
  },
};
