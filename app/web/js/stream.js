/**
 * The one reader of event streams: fetch, ReadableStream, incremental SSE decoding.
 *
 * Rules of the decoder are those of the HTML standard (server-sent events, 9.2.6): a line ends with LF, CRLF or CR, an
 * event with an empty line, wherever the bytes are cut; what has no empty line behind it is not an event.
 */

/** An answer with an error status. `retryAfter` is in seconds, null where the server names none. */
export class HttpError extends Error {
  constructor(status, message, { code = null, retryAfter = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** An error event in a stream. */
export class StreamError extends Error {
  constructor(message, code = null) {
    super(message);
    this.code = code;
  }
}

/** No connection, or it broke before the stream had ended. */
export class ConnectionLost extends Error {}

/** Text in any pieces to events `{event, data}`. */
export class SseDecoder {
  #rest = "";
  #afterCr = false;
  #event = "";
  #data = [];

  feed(text) {
    if (text && this.#afterCr) {
      text = text[0] === "\n" ? text.slice(1) : text;
      this.#afterCr = false;
    }
    const all = this.#rest + text;
    const events = [];
    const end = /\r\n?|\n/g;
    end.lastIndex = this.#rest.length;
    let start = 0;
    for (let match = end.exec(all); match; match = end.exec(all)) {
      this.#line(all.slice(start, match.index), events);
      start = end.lastIndex;
      this.#afterCr = match[0] === "\r" && start === all.length;
    }
    this.#rest = all.slice(start);
    return events;
  }

  #line(line, events) {
    if (line === "") {
      if (this.#data.length) events.push({ event: this.#event || "message", data: this.#data.join("\n") });
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
  }
}

/**
 * Opens a stream. Resolves to `{headers, events}` when the head of a good answer is there.
 *
 * @throws {HttpError} an error status
 * @throws {ConnectionLost} no answer
 * @throws {DOMException} AbortError: `signal` was aborted; the connection is closed then, so that the engine is freed
 */
export async function openStream(url, { signal, ...init } = {}) {
  let response;
  try {
    response = await fetch(url, { signal, cache: "no-store", credentials: "same-origin", ...init });
  } catch (error) {
    throw lost(error);
  }
  if (!response.ok) throw await refused(response);
  return { headers: response.headers, events: events(response.body) };
}

async function* events(body) {
  const decoder = new SseDecoder();
  const utf8 = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* decoder.feed(utf8.decode(value, { stream: true }));
    }
  } catch (error) {
    throw lost(error);
  } finally {
    reader.cancel().catch(() => {}); // nobody waits for it: either it has ended, or it is given up
  }
}

/** GET of a JSON document, with the errors of `openStream`. */
export async function getJson(url, { headers } = {}) {
  let response;
  try {
    response = await fetch(url, { headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    throw lost(error);
  }
  if (!response.ok) throw await refused(response);
  return response.json();
}

function lost(error) {
  return error.name === "AbortError" || error instanceof ConnectionLost ? error : new ConnectionLost(error.message);
}

async function refused(response) {
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    error = null; // not JSON: a proxy's own page
  }
  const message = error?.message || `${response.status} ${response.statusText}`.trim();
  const seconds = Number.parseFloat(response.headers.get("retry-after"));
  const retryAfter = Number.isFinite(seconds) ? Math.max(0, seconds) : null;
  return new HttpError(response.status, message, { code: error?.code ?? null, retryAfter });
}
