/** Asking, and everything that a person can do while the answer comes. */
import { nextTick } from "../vendor/vue.js";
import { Draft } from "./draft.js";
import { Frames } from "./frames.js";
import { t } from "./i18n.js";
import { chatRequest } from "./settings.js";
import { firstWords, keep, lockOf, newMessage, say, store } from "./store.js";
import { ConnectionLost, HttpError, openStream, StreamError } from "./stream.js";

const MOST_TRIES = 6;
const BLANK = {
  content: "",
  reasoning: "",
  toolCalls: [],
  state: "waiting",
  finish: null,
  problem: null,
  thinkingTime: null,
  meta: null,
};

/** Whether an answer of the shown conversation is on its way. */
export function running() {
  return store.jobs.has(store.current.id);
}

/** Says something and asks for the answer. */
export function send(text) {
  const conversation = store.current;
  if (running() || !text.trim()) return;
  conversation.messages.push(newMessage("user", text.trim()));
  if (!conversation.named) conversation.title = firstWords(conversation.messages);
  answerTo(conversation);
}

/** Stops the answer of the shown conversation: its connection is closed, what has come is kept. */
export function stop() {
  store.jobs.get(store.current.id)?.stop();
}

/** Asks for an answer again; what came after it is dropped. */
export function regenerate(answer) {
  const conversation = store.current;
  if (running()) return;
  conversation.messages.splice(conversation.messages.indexOf(answer));
  answerTo(conversation);
}

/** Sends a changed message; what came after it is dropped. */
export function resend(message, text) {
  const conversation = store.current;
  if (running() || !text.trim()) return;
  conversation.messages.splice(conversation.messages.indexOf(message));
  send(text);
}

/** Goes on with a wait for a free slot at once. */
export function tryNow() {
  store.jobs.get(store.current.id)?.wake();
}

function answerTo(conversation) {
  const answer = newMessage("assistant");
  Object.assign(answer, BLANK);
  conversation.messages.push(answer);
  conversation.updated = Date.now();
  location.hash = `#/c/${conversation.id}`;
  const job = new Job(conversation, answer);
  store.jobs.set(conversation.id, job);
  keep(conversation, { now: true });
  say("say.sent");
  if (navigator.locks) navigator.locks.request(lockOf(answer.id), () => job.run());
  else job.run();
}

/** The messages as the API takes them. A message without text says nothing. */
function spoken(conversation, answer) {
  return conversation.messages
    .filter((message) => message !== answer && message.content)
    .map(({ role, content }) => ({ role, content }));
}

/** One answer on its way, with its tries. */
class Job {
  #abort = new AbortController();
  wake = () => {};

  constructor(conversation, answer) {
    this.conversation = conversation;
    this.answer = answer;
  }

  stop() {
    this.#abort.abort();
  }

  async run() {
    try {
      for (let tries = 1; !(await this.#try(tries)); tries++);
    } finally {
      store.jobs.delete(this.conversation.id);
      this.conversation.updated = Date.now();
      await keep(this.conversation, { now: true });
    }
  }

  /** One request. Resolves to whether the answer is settled; else a wait has passed and another try is due. */
  async #try(tries) {
    Object.assign(this.answer, BLANK);
    const draft = new Draft(performance.now());
    const frames = new Frames(() => this.#show(draft), nextTick);
    try {
      await this.#read(draft, frames);
      frames.flush();
      this.#end(draft.finish ? "done" : "failed", draft.finish ? null : { kind: "cut" });
    } catch (error) {
      frames.flush();
      if (this.#abort.signal.aborted) this.#end("stopped");
      else if (error instanceof ConnectionLost && draft.finish)
        this.#end("done"); // only the usage is missing
      else if (isBusy(error) && tries < MOST_TRIES) return !(await this.#wait(error));
      else this.#end("failed", problemOf(error));
    }
    return true;
  }

  async #read(draft, frames) {
    const request = chatRequest(spoken(this.conversation, this.answer));
    const { signal } = this.#abort;
    const stream = await openStream("v1/chat/completions", { method: "POST", signal, ...request });
    this.answer.meta = route(stream.headers);
    this.answer.state = "streaming";
    for await (const { data } of stream.events) {
      if (data === "[DONE]") continue; // what ends the answer is its finish, what ends the stream its end
      draft.apply(readChunk(data), performance.now());
      frames.request();
    }
  }

  #show(draft) {
    const { answer } = this;
    if (!answer.reasoning && draft.reasoning) say("say.thinking");
    if (!answer.content && draft.content) say("say.answering");
    answer.content = draft.content;
    answer.reasoning = draft.reasoning;
    answer.toolCalls = draft.toolCalls;
    answer.thinkingTime = draft.thinkingTime;
    answer.finish = draft.finish;
    if (answer.meta && draft.ttft !== null) answer.meta = { ...answer.meta, ...pace(draft) };
    keep(this.conversation);
  }

  #end(state, problem = null) {
    Object.assign(this.answer, { state, problem });
    say(`say.${state}`);
  }

  /** Waits as long as the server says. Resolves to whether another try is due: false when it was stopped. */
  async #wait(error) {
    const { signal } = this.#abort;
    const milliseconds = (error.retryAfter ?? 1) * 1000;
    const problem = { kind: "busy", message: error.message, until: Date.now() + milliseconds };
    Object.assign(this.answer, { state: "busy", problem });
    say("say.busy");
    await new Promise((resolve) => {
      this.wake = resolve;
      setTimeout(resolve, milliseconds);
      signal.addEventListener("abort", resolve, { once: true });
    });
    if (signal.aborted) this.#end("stopped");
    return !signal.aborted;
  }
}

function isBusy(error) {
  return error instanceof HttpError && error.status === 429 && error.retryAfter !== null;
}

function readChunk(data) {
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch {
    throw new StreamError(t("turn.cut"));
  }
  if (chunk.error) throw new StreamError(chunk.error.message ?? String(chunk.error), chunk.error.code);
  return chunk;
}

function problemOf(error) {
  if (error instanceof HttpError && error.status === 401) return { kind: "unauthorized" };
  if (error instanceof ConnectionLost) return { kind: navigator.onLine ? "lost" : "lostOffline" };
  return { kind: "failed", message: error.message };
}

/** What the headers of an answer say about its way. */
function route(headers) {
  const number = (name) => (headers.has(name) ? Number(headers.get(name)) : null);
  return {
    lane: headers.get("x-tokenlane-lane"),
    engine: headers.get("x-tokenlane-engine"),
    queue: number("x-tokenlane-queue-ms"),
    overhead: number("x-tokenlane-overhead-ms"),
    request: headers.get("x-request-id"),
    ttft: null,
    speed: null,
    tokens: null,
  };
}

function pace({ ttft, speed, usage }) {
  return { ttft, speed, tokens: usage?.completion_tokens ?? null };
}
