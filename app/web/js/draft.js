/** What the chunks of one chat stream add up to. Pure: time, in milliseconds, is an argument. */
export class Draft {
  content = "";
  reasoning = "";
  toolCalls = [];
  finish = null;
  usage = null;
  #began;
  #first = null;
  #last = null;
  #thinking = null;
  #thought = null;

  constructor(began) {
    this.#began = began;
  }

  /** Takes one chunk; fields that are not known are ignored. */
  apply(chunk, now) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    const delta = choice.delta ?? {};
    const thought = delta.reasoning || delta.reasoning_content || "";
    const calls = delta.tool_calls ?? [];
    if (thought) {
      this.reasoning += thought;
      this.#thinking ??= now;
      this.#thought = now;
    }
    if (this.#thinking !== null && !this.content && (delta.content || calls.length)) this.#thought = now;
    if (delta.content) this.content += delta.content;
    for (const call of calls) this.#call(call);
    if (thought || delta.content || calls.length) {
      this.#first ??= now;
      this.#last = now;
    }
  }

  #call({ index = 0, id, function: { name, arguments: piece } = {} }) {
    const known = this.toolCalls[index] ?? { id: "", name: "", arguments: "" };
    this.toolCalls = this.toolCalls.slice();
    this.toolCalls[index] = {
      id: known.id || id || "",
      name: known.name + (name ?? ""),
      arguments: known.arguments + (piece ?? ""),
    };
  }

  /** Milliseconds from the request to the first token, null before it. */
  get ttft() {
    return this.#first === null ? null : this.#first - this.#began;
  }

  /** Milliseconds from the first token of the reasoning to that of the answer, or to the latest one; null without any. */
  get thinkingTime() {
    return this.#thinking === null ? null : this.#thought - this.#thinking;
  }

  /** Tokens a second between the first and the last one; null where it cannot be told. */
  get speed() {
    const tokens = this.usage?.completion_tokens;
    const seconds = (this.#last - this.#first) / 1000;
    return tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null;
  }
}
