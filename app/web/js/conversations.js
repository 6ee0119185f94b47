/**
 * Conversations in this browser's IndexedDB, and as JSON files.
 *
 * Two object stores: `index` holds what the list needs of each conversation, `messages` the rest, so that the list is
 * quick however much was said. Where IndexedDB cannot be used everything works until the page is closed.
 */
const NAME = "tokenlane";
const VERSION = 1;
const FORMAT = "tokenlane.conversations";

let opened = null;

function database() {
  opened ??= new Promise((resolve) => {
    let request;
    try {
      request = indexedDB.open(NAME, VERSION);
    } catch {
      resolve(null);
      return;
    }
    request.onupgradeneeded = () => {
      request.result.createObjectStore("index", { keyPath: "id" });
      request.result.createObjectStore("messages", { keyPath: "id" });
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
    request.onerror = () => resolve(null);
  });
  return opened;
}

/** Runs `act(index, messages)` in one transaction; resolves to the result of the request it returns, if it does. */
async function transaction(mode, act) {
  const db = await database();
  if (!db) return undefined;
  return new Promise((resolve, reject) => {
    const running = db.transaction(["index", "messages"], mode);
    const request = act(running.objectStore("index"), running.objectStore("messages"));
    running.oncomplete = () => resolve(request?.result);
    running.onabort = () => reject(running.error ?? new DOMException("aborted", "AbortError"));
  });
}

/** Whether conversations outlive the page. */
export async function kept() {
  return (await database()) !== null;
}

/** `{id, title, named, created, updated}` of each, the latest first. */
export async function list() {
  const all = (await transaction("readonly", (index) => index.getAll())) ?? [];
  return all.sort((a, b) => b.updated - a.updated);
}

/** The messages of a conversation, null if it is not there. */
export async function messagesOf(id) {
  return (await transaction("readonly", (index, messages) => messages.get(id)))?.messages ?? null;
}

export function save({ id, title, named, created, updated }, messages) {
  return transaction("readwrite", (index, store) => {
    index.put({ id, title, named, created, updated });
    store.put({ id, messages });
  });
}

export function rename({ id, title, named, created, updated }) {
  return transaction("readwrite", (index) => void index.put({ id, title, named, created, updated }));
}

export function remove(id) {
  return transaction("readwrite", (index, messages) => {
    index.delete(id);
    messages.delete(id);
  });
}

export function removeAll() {
  return transaction("readwrite", (index, messages) => {
    index.clear();
    messages.clear();
  });
}

/** The ids of the conversations in which something was said that holds `words`, whatever the case. */
export async function search(words) {
  const wanted = words.toLowerCase();
  const all = (await transaction("readonly", (index, messages) => messages.getAll())) ?? [];
  const says = ({ content }) => content.toLowerCase().includes(wanted);
  return new Set(all.filter(({ messages }) => messages.some(says)).map(({ id }) => id));
}

/** Everything as one document. */
export async function exported() {
  const index = await list();
  const all = (await transaction("readonly", (_, messages) => messages.getAll())) ?? [];
  const messages = new Map(all.map((each) => [each.id, each.messages]));
  return {
    format: FORMAT,
    version: 1,
    exported: new Date().toISOString(),
    conversations: index.map((each) => ({ ...each, messages: messages.get(each.id) ?? [] })),
  };
}

/**
 * Adds the conversations of a document; one with the same id is replaced. Returns how many there were.
 *
 * @throws {TypeError} it is not such a document; then nothing was added
 */
export async function imported(document) {
  if (document?.format !== FORMAT || !Array.isArray(document.conversations)) throw new TypeError("not an export");
  const read = document.conversations.map(readConversation);
  await transaction("readwrite", (index, store) => {
    for (const { messages, ...meta } of read) {
      index.put(meta);
      store.put({ id: meta.id, messages });
    }
  });
  return read.length;
}

function readConversation({ id, title, named, created, updated, messages }) {
  if (typeof id !== "string" || !id || !Array.isArray(messages)) throw new TypeError("not a conversation");
  const time = (value) => (Number.isFinite(value) ? value : Date.now());
  return {
    id,
    title: String(title ?? ""),
    named: Boolean(named),
    created: time(created),
    updated: time(updated),
    messages: messages.map(readMessage),
  };
}

const STATES = ["done", "stopped", "failed", "interrupted"];
const PROBLEMS = ["cut", "lost", "lostOffline", "unauthorized", "failed"];
const NAMES = ["lane", "engine", "request"];
const MEASURES = ["queue", "overhead", "ttft", "speed", "tokens"];

/** A message with known fields of the right types alone: the file may come from anywhere. */
function readMessage(message) {
  if (!["user", "assistant"].includes(message?.role)) throw new TypeError("not a message");
  const calls = Array.isArray(message.toolCalls) ? message.toolCalls : [];
  const state = STATES.includes(message.state) ? message.state : "interrupted";
  return {
    id: text(message.id) || `imported-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`,
    role: message.role,
    content: text(message.content),
    reasoning: text(message.reasoning),
    toolCalls: calls.map((call) => ({ id: text(call?.id), name: text(call?.name), arguments: text(call?.arguments) })),
    state: message.role === "user" ? "done" : state,
    finish: text(message.finish) || null,
    problem: state === "failed" ? readProblem(message.problem) : null,
    thinkingTime: measure(message.thinkingTime),
    meta: message.meta ? readMeta(message.meta) : null,
    created: measure(message.created) ?? Date.now(),
  };
}

function readProblem(problem) {
  const kind = PROBLEMS.includes(problem?.kind) ? problem.kind : "cut";
  return { kind, message: text(problem?.message) };
}

function readMeta(meta) {
  const names = NAMES.map((name) => [name, text(meta[name]) || null]);
  return Object.fromEntries([...names, ...MEASURES.map((name) => [name, measure(meta[name])])]);
}

function text(value) {
  return typeof value === "string" ? value : "";
}

function measure(value) {
  return Number.isFinite(value) ? value : null;
}
