/**
 * The one store: what the page shows, and the few changes that are not a chat request.
 *
 * Large things are shallow on purpose: a message is its own reactive object, and a change of its text is seen by the
 * one component that shows it.
 */
import { shallowReactive } from "../vendor/vue.js";
import * as conversations from "./conversations.js";
import { languageTag, t } from "./i18n.js";
import { requestHeaders, settings } from "./settings.js";
import { getJson } from "./stream.js";

const SAVE_EVERY_MS = 400;
const ASK_AGAIN_MS = 3000;

export const store = shallowReactive({
  view: "chat",
  conversations: [],
  current: newConversation(),
  jobs: shallowReactive(new Map()), // conversation id -> the running job of `chat.js`
  config: null,
  models: [],
  problem: "",
  locked: false, // the gateway asks for a key
  kept: true,
  online: navigator.onLine,
  menuOpen: false,
  settingsOpen: false,
  announcement: "",
  toast: null,
});

/** An id; `crypto.randomUUID` is not there for pages that came over plain http from another machine. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation() {
  const now = Date.now();
  return shallowReactive({
    id: newId(),
    title: "",
    named: false,
    created: now,
    updated: now,
    messages: shallowReactive([]),
  });
}

/** A message with everything that one can have. */
export function newMessage(role, content = "") {
  return shallowReactive({
    id: newId(),
    role,
    content,
    reasoning: "",
    toolCalls: [],
    state: "done",
    finish: null,
    problem: null,
    thinkingTime: null,
    meta: null,
    created: Date.now(),
  });
}

export function say(key) {
  store.announcement = t(key);
}

/** Shows a note for some seconds; `action` is `{label, run}`. */
export function toast(text, action = null) {
  const shown = { text, action };
  store.toast = shown;
  setTimeout(() => {
    if (store.toast === shown) store.toast = null;
  }, 6000);
}

export function applyLook() {
  const root = document.documentElement;
  root.lang = languageTag();
  root.dataset.theme = settings.theme;
  root.dataset.fontSize = settings.fontSize;
  document.title = store.view === "status" ? `${t("status.title")} · tokenlane` : titled();
}

function titled() {
  return store.current.title ? `${store.current.title} · tokenlane` : "tokenlane";
}

let asking = null;

/** Asks the server for its defaults and models, again and again until it has both. */
export async function loadService() {
  clearTimeout(asking);
  try {
    store.config = await getJson("ui/config");
    const { data } = await getJson("v1/models", { headers: requestHeaders() });
    store.models = data.map(({ id }) => id);
    Object.assign(store, { problem: "", locked: false });
  } catch (error) {
    store.models = [];
    store.locked = error.status === 401;
    store.problem = store.locked ? "" : error.message;
  }
  if (!store.models.length && !store.locked) asking = setTimeout(loadService, ASK_AGAIN_MS);
  if (store.models.length && !store.models.includes(settings.model)) settings.model = store.models[0];
  if (store.config && !store.config.lanes.some(({ name }) => name === settings.lane)) settings.lane = "";
}

/** Whether the lane that would answer now has simulated engines alone. */
export function simulated() {
  const name = settings.lane || store.config?.default_lane;
  return store.config?.lanes.find((lane) => lane.name === name)?.simulated ?? false;
}

export async function loadList() {
  store.kept = await conversations.kept();
  if (store.kept) store.conversations = await conversations.list();
}

let choice = 0;

/** Shows a conversation; a new one where there is none of that id. Of several choices the last one is shown. */
export async function open(id) {
  const mine = ++choice;
  const running = store.jobs.get(id);
  if (running) {
    store.current = running.conversation;
    return;
  }
  if (store.current.id === id) return;
  const [meta, messages] = [store.conversations.find((each) => each.id === id), await conversations.messagesOf(id)];
  if (mine !== choice) return;
  if (!meta || !messages) {
    start();
    return;
  }
  const read = messages.map((message) => shallowReactive({ ...newMessage(message.role), ...message }));
  store.current = shallowReactive({ ...meta, messages: shallowReactive(read) });
  await settleInterrupted(store.current);
}

/** Shows an empty conversation. It is kept once something was said. */
export function start() {
  choice++;
  if (store.current.messages.length) store.current = newConversation();
  if (location.hash !== "#/") location.hash = "#/";
}

/** An answer that was being written when it was kept: another tab writes on, or nobody does. */
async function settleInterrupted(conversation) {
  for (const message of conversation.messages) {
    if (["waiting", "streaming", "busy"].includes(message.state)) {
      message.state = (await heldElsewhere(message.id)) ? "elsewhere" : "interrupted";
    }
  }
}

async function heldElsewhere(id) {
  const { held } = (await navigator.locks?.query()) ?? { held: [] };
  return held.some(({ name }) => name === lockOf(id));
}

/** The name of the lock that a tab holds for as long as it writes an answer. */
export function lockOf(id) {
  return `tokenlane.answer.${id}`;
}

/** Renames a conversation; an empty title gives it back its first words. */
export async function rename(id, title) {
  const named = title.trim();
  const shown = store.current.id === id ? store.current : null;
  const listed = store.conversations.find((each) => each.id === id);
  const messages = shown?.messages ?? (await conversations.messagesOf(id)) ?? [];
  const meta = { ...listed, title: named || firstWords(messages), named: Boolean(named) };
  store.conversations = store.conversations.map((each) => (each.id === id ? meta : each));
  if (shown) Object.assign(shown, { title: meta.title, named: meta.named });
  const running = store.jobs.get(id)?.conversation;
  if (running) Object.assign(running, { title: meta.title, named: meta.named });
  await conversations.rename(meta);
  changed(id);
}

/** Deletes a conversation, with a way back. */
export async function remove(id) {
  abandon(store.jobs.get(id));
  const meta = store.conversations.find((each) => each.id === id);
  const messages = await conversations.messagesOf(id);
  dropFromList(id);
  await conversations.remove(id);
  changed(id);
  const undo = async () => {
    await conversations.save(meta, messages ?? []);
    await loadList();
    changed(id);
  };
  toast(t("list.deleted", { title: meta.title }), { label: t("list.undo"), run: undo });
}

/** Stops an answer whose conversation is deleted: it must not be kept again. */
function abandon(job) {
  if (!job) return;
  job.conversation.removed = true;
  job.stop();
}

function dropFromList(id) {
  store.conversations = store.conversations.filter((each) => each.id !== id);
  pending.get(id)?.cancel();
  if (store.current.id === id) {
    store.current = newConversation();
    location.hash = "#/";
  }
}

export async function removeAll() {
  for (const job of store.jobs.values()) abandon(job);
  for (const { id } of store.conversations) dropFromList(id);
  store.current = newConversation();
  await conversations.removeAll();
  changed(null);
}

/** The first words of the first message of a person. */
export function firstWords(messages) {
  const text =
    messages
      .find(({ role }) => role === "user")
      ?.content.trim()
      .split("\n")[0] ?? "";
  return text.length > 60 ? `${text.slice(0, 60).trimEnd()}…` : text;
}

const pending = new Map(); // conversation id -> {run, cancel} of a save that is due

/** Keeps a conversation soon; `now` at once. */
export function keep(conversation, { now = false } = {}) {
  const { id } = conversation;
  if (!pending.has(id)) {
    const run = () => {
      cancel();
      return write(conversation);
    };
    const timer = setTimeout(run, SAVE_EVERY_MS);
    const cancel = () => {
      clearTimeout(timer);
      pending.delete(id);
    };
    pending.set(id, { run, cancel });
  }
  return now ? pending.get(id).run() : Promise.resolve();
}

/** Keeps everything that is due: the page may be about to close. */
export function keepAll() {
  for (const { run } of [...pending.values()]) run();
}

async function write(conversation) {
  const { id, title, named, created, updated, messages, removed } = conversation;
  if (removed) return;
  const meta = { id, title, named, created, updated };
  store.conversations = [meta, ...store.conversations.filter((each) => each.id !== id)].sort(
    (a, b) => b.updated - a.updated,
  );
  try {
    await conversations.save(
      meta,
      messages.map((message) => ({ ...message })),
    );
    changed(id);
  } catch {
    store.kept = false; // no room, or storage was taken away
  }
}

const channel = "BroadcastChannel" in window ? new BroadcastChannel("tokenlane") : null;

/** Tells the other tabs. */
function changed(id) {
  channel?.postMessage({ id });
}

/** Follows what other tabs do. */
export function followOtherTabs() {
  channel?.addEventListener("message", async ({ data: { id } }) => {
    await loadList();
    const shown = store.current.id;
    if (store.jobs.has(shown) || (id !== null && id !== shown)) return;
    if (!store.current.messages.length) return;
    store.current = newConversation();
    if (store.conversations.some((each) => each.id === shown)) await open(shown);
  });
}
