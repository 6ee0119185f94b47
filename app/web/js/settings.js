/**
 * What a person has chosen, kept in localStorage; the key is not among it.
 *
 * The key stays in sessionStorage, which ends with the tab, unless it is asked to stay. An empty value means: leave it
 * to the server; then nothing is sent.
 */
import { reactive, watch } from "../vendor/vue.js";

const SETTINGS = "tokenlane.settings";
const KEY = "tokenlane.key";
const TRIES = "tokenlane.tries";

export const DEFAULTS = Object.freeze({
  model: "",
  lane: "",
  system: "",
  temperature: "",
  topP: "",
  maxTokens: "",
  stop: "",
  seed: "",
  effort: "",
  bufferTokens: "",
  bufferDelay: "",
  theme: "auto",
  language: "auto",
  fontSize: "medium",
  keepKey: false,
});

export const settings = reactive({ ...DEFAULTS, ...stored() });

/** The API key; not part of `settings`, so that nothing stores it by accident. */
export const secret = reactive({ key: read(sessionStorageOrNull(), KEY) || read(localStorageOrNull(), KEY) || "" });

/** Stores from now on what changes. */
export function startKeeping() {
  write(sessionStorageOrNull(), TRIES, ""); // the page has loaded: early.js may count anew
  watch(settings, () => write(localStorageOrNull(), SETTINGS, JSON.stringify(settings)));
  watch([() => secret.key, () => settings.keepKey], ([key, keep]) => {
    write(sessionStorageOrNull(), KEY, keep ? "" : key);
    write(localStorageOrNull(), KEY, keep ? key : "");
  });
}

/** The headers of every request to /v1 that depend on the settings. */
export function requestHeaders() {
  const headers = {};
  if (secret.key) headers.Authorization = `Bearer ${secret.key}`;
  return headers;
}

/** Headers and body of a chat request. */
export function chatRequest(messages) {
  const headers = { "Content-Type": "application/json", ...requestHeaders() };
  if (settings.lane) headers["X-Tokenlane-Lane"] = settings.lane;
  const buffer = [named("tokens", settings.bufferTokens), named("delay_ms", settings.bufferDelay)].filter(Boolean);
  if (buffer.length) headers["X-Tokenlane-Buffer"] = buffer.join(",");
  const system = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  const stop = settings.stop.split("\n").filter(Boolean);
  const body = {
    model: settings.model,
    messages: [...system, ...messages],
    stream: true,
    stream_options: { include_usage: true },
    ...given({
      temperature: settings.temperature,
      top_p: settings.topP,
      max_tokens: settings.maxTokens,
      seed: settings.seed,
    }),
    ...(stop.length ? { stop } : {}),
    ...(settings.effort ? { reasoning_effort: settings.effort } : {}),
  };
  return { headers, body: JSON.stringify(body) };
}

function given(numbers) {
  const filled = Object.entries(numbers).filter(([, value]) => value !== "" && Number.isFinite(Number(value)));
  return Object.fromEntries(filled.map(([name, value]) => [name, Number(value)]));
}

function named(name, value) {
  return value === "" ? null : `${name}=${Math.round(Number(value))}`;
}

/** What is stored, less what is no setting or of another type. */
function stored() {
  try {
    const all = Object.entries(JSON.parse(read(localStorageOrNull(), SETTINGS) || "{}") ?? {});
    return Object.fromEntries(all.filter(([name, value]) => typeof value === typeof DEFAULTS[name]));
  } catch {
    return {};
  }
}

// Storage can be switched off; then to ask for it is an error already.
function localStorageOrNull() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

function sessionStorageOrNull() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

function read(storage, name) {
  return storage?.getItem(name) ?? null;
}

function write(storage, name, value) {
  try {
    if (value) storage?.setItem(name, value);
    else storage?.removeItem(name);
  } catch {
    // full, or switched off since: what was chosen holds until the page is closed
  }
}
