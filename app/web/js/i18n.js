/** Strings of the chosen language, numbers and times as it writes them. */
import { settings } from "./settings.js";
import en from "./strings/en.js";
import zh from "./strings/zh.js";

const LANGUAGES = { en, zh };
const TAGS = { en: "en", zh: "zh-Hans" };

/** The language in use: the chosen one, else the browser's if there are strings for it, else English. */
export function language() {
  if (settings.language in LANGUAGES) return settings.language;
  return /^zh\b/.test(navigator.language) ? "zh" : "en";
}

/** The language as an HTML `lang`. */
export function languageTag() {
  return TAGS[language()];
}

/** The string `key`, with `{name}` replaced by the values; the key itself for what a newer server may say. */
export function t(key, values = {}) {
  const text = LANGUAGES[language()][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** A number with at most so many digits behind the point. */
export function number(value, digits = 0) {
  return value.toLocaleString(languageTag(), { maximumFractionDigits: digits });
}

/** Milliseconds as people read them: 0.4 ms, 62 ms, 1.24 s. */
export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${number(milliseconds / 1000, milliseconds < 10_000 ? 2 : 1)} s`;
  return `${number(milliseconds, milliseconds < 10 ? 1 : 0)} ms`;
}

/** When something was: the time of today, else the day. */
export function day(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date().toDateString();
  const format = today ? { hour: "numeric", minute: "2-digit" } : { month: "short", day: "numeric" };
  return date.toLocaleString(languageTag(), format);
}
