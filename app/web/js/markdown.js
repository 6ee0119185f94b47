/**
 * Markdown to safe HTML, block by block.
 *
 * A text that grows is parsed from its last block on: what stands before it cannot change any more and is kept. The
 * output is as safe as three layers make it: raw HTML is text, what leaves the parser is sanitised against a short list
 * of tags and attributes, and the page's Content-Security-Policy runs no script that is not a file of ours.
 */
import DOMPurify from "../vendor/dompurify.js";
import MarkdownIt from "../vendor/markdown-it.js";

const TAGS = (
  "a blockquote br code del em figcaption figure h1 h2 h3 h4 h5 h6 hr img li ol p pre s span strong " +
  "table tbody td th thead tr ul"
).split(" ");
const POLICY = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["alt", "class", "dir", "href", "src", "start", "title"],
  ADD_URI_SAFE_ATTR: ["dir", "start"], // every other value has to be an address that is allowed
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|gif|jpeg|webp);)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: false });
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
markdown.inline.ruler.before("html_inline", "line_break", lineBreak);
Object.assign(markdown.renderer.rules, {
  fence: (tokens, index) => code(tokens[index].content, tokens[index].info),
  code_block: (tokens, index) => code(tokens[index].content, ""),
  image: (tokens, index) => image(tokens[index]),
  td_open: (tokens, index) => cell("td", tokens[index]),
  th_open: (tokens, index) => cell("th", tokens[index]),
  paragraph_open: (tokens, index) => (tokens[index].hidden ? "" : '<p dir="auto">'),
  list_item_open: () => '<li dir="auto">',
  heading_open: (tokens, index) => `<${tokens[index].tag} dir="auto">`,
});

const escapeHtml = markdown.utils.escapeHtml;

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** `<br>`, the one tag that models write in tables where Markdown has no other way. */
function lineBreak(state, silent) {
  const match = /^<br\s*\/?>/i.exec(state.src.slice(state.pos, state.pos + 8));
  if (!match) return false;
  if (!silent) state.push("hardbreak", "br", 0);
  state.pos += match[0].length;
  return true;
}

/** Code is plain here; `blocks.js` adds colours and a button once it is shown. */
function code(text, info) {
  const language = escapeHtml(info.trim().split(/\s+/)[0].toLowerCase());
  const body = `<code class="language-${language}">${escapeHtml(text)}</code>`;
  return `<figure class="code"><figcaption>${language}</figcaption><pre dir="ltr">${body}</pre></figure>`;
}

/** An image is a link: to load it would tell its server who reads. Only one that is in the text itself is shown. */
function image(token) {
  const source = token.attrGet("src");
  const name = escapeHtml(token.content || source);
  if (source.startsWith("data:")) return `<img alt="${name}" src="${escapeHtml(source)}">`;
  return `<a class="image" href="${escapeHtml(source)}">${name}</a>`;
}

function cell(tag, token) {
  const side = /text-align:(\w+)/.exec(token.attrGet("style") ?? "")?.[1];
  return side ? `<${tag} dir="auto" class="align-${side}">` : `<${tag} dir="auto">`;
}

function sanitised(tokens, env) {
  return DOMPurify.sanitize(markdown.renderer.render(tokens, markdown.options, env), POLICY);
}

/** The tokens of each block at the top, with the line it begins in. */
function topLevel(tokens) {
  const groups = [];
  for (const token of tokens) {
    if (token.level === 0 && token.nesting >= 0) groups.push({ line: token.map?.[0] ?? 0, tokens: [] });
    groups.at(-1).tokens.push(token);
  }
  return groups;
}

const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/** One text that grows, as blocks `{key, html, growing}`. */
export class GrowingMarkdown {
  #text = "";
  #offset = 0;
  #kept = [];

  /** The blocks of `text`; `final` when nothing will be added to it. */
  update(text, final) {
    if (!text.startsWith(this.#text) || (final && DEFINITION.test(text))) this.#reset();
    this.#text = text;
    const tail = text.slice(this.#offset);
    const env = {};
    const groups = topLevel(markdown.parse(tail, env));
    this.#keep(tail, final ? groups.length : settled(groups, tail), groups, env);
    return [...this.#kept, ...groups.map((group, i) => block(this.#kept.length + i, group, env, true))];
  }

  #reset() {
    this.#text = "";
    this.#offset = 0;
    this.#kept = [];
  }

  /** Keeps the first `count` groups, and takes them out of `groups`. */
  #keep(tail, count, groups, env) {
    for (const group of groups.splice(0, count)) {
      this.#kept.push(block(this.#kept.length, group, env, false));
    }
    if (count) this.#offset += groups.length ? offsetOfLine(tail, groups[0].line) : tail.length;
  }
}

function block(key, group, env, growing) {
  return { key, html: sanitised(group.tokens, env), growing };
}

/**
 * How many of the blocks cannot change any more. The last one can. The one before it can as long as the last one is but
 * a part of a line: `2` after a list is a paragraph, `2. x` an item of the list.
 */
function settled(groups, tail) {
  if (groups.length < 2) return 0;
  const whole = tail.indexOf("\n", offsetOfLine(tail, groups.at(-1).line)) >= 0;
  return groups.length - (whole ? 1 : 2);
}

function offsetOfLine(text, line) {
  let offset = 0;
  for (; line > 0; line--) offset = text.indexOf("\n", offset) + 1;
  return offset;
}
