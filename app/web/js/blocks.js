/**
 * Puts sanitised HTML into an element that may show an earlier state of it: what is the same stays, so that a list of
 * five hundred items costs one item, a selection survives, and a button can be pressed while code is still written.
 *
 * Code gets its button and its colours here. Neither comes from the model: nothing that a model writes is a control.
 */
import { copy } from "./clipboard.js";
import { highlighted, isReady, prepare } from "./highlight.js";
import { t } from "./i18n.js";

/** Characters of code that is coloured anew with every change while it grows; longer code is when it is complete. */
const AT_ONCE = 4000;

/** Milliseconds that colouring may take of a frame. */
const BUDGET = 10;

const SAID_MS = 1600;

/** @param growing whether more is to come */
export function show(root, html, growing) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  morph(root, fresh.content);
  for (const figure of root.querySelectorAll("figure.code")) finishCode(figure, growing);
}

function morph(old, fresh) {
  let index = 0;
  for (const next of [...fresh.childNodes]) {
    const now = old.childNodes[index++];
    if (!now) old.append(next);
    else if (!now.isEqualNode(next)) change(now, next);
  }
  while (old.childNodes.length > index) old.lastChild.remove();
}

function change(now, next) {
  if (now.nodeType === Node.TEXT_NODE && next.nodeType === Node.TEXT_NODE) now.data = next.data;
  else if (isCode(now) && isCode(next)) changeCode(now, next);
  else if (now.tagName && now.tagName === next.tagName && sameAttributes(now, next)) morph(now, next);
  else now.replaceWith(next);
}

function isCode(node) {
  return node.tagName === "FIGURE";
}

function sameAttributes(a, b) {
  return a.cloneNode().isEqualNode(b.cloneNode());
}

function changeCode(now, next) {
  const [code, written] = [now.querySelector("code"), next.querySelector("code")];
  if (code.className !== written.className) {
    code.className = written.className;
    now.querySelector("figcaption").firstChild?.replaceWith(next.querySelector("figcaption").textContent);
    delete now.dataset.coloured;
  }
  if (code.textContent === written.textContent) return;
  code.textContent = written.textContent;
  delete now.dataset.coloured;
}

function finishCode(figure, growing) {
  if (!figure.querySelector("button")) figure.querySelector("figcaption").append(copyButton(figure));
  const code = figure.querySelector("code");
  if (figure.dataset.coloured || code.className === "language-") return;
  if (growing && isReady() && code.textContent.length <= AT_ONCE) colour(figure);
  else if (!growing) soon(figure);
  else if (!isReady()) prepare();
}

function colour(figure) {
  const code = figure.querySelector("code");
  const html = highlighted(code.textContent, code.className.slice("language-".length));
  if (html !== null) code.innerHTML = html;
  figure.dataset.coloured = "yes";
}

const waiting = new Set();

/** Colours it in one of the next frames. */
async function soon(figure) {
  if (waiting.has(figure)) return;
  waiting.add(figure);
  if (!isReady()) await prepare();
  if (waiting.has(figure)) schedule();
}

let scheduled = false;

function schedule() {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => {
    scheduled = false;
    const until = performance.now() + BUDGET;
    for (const figure of waiting) {
      waiting.delete(figure);
      if (figure.isConnected) colour(figure);
      if (performance.now() > until) break;
    }
    if (waiting.size) schedule();
  });
}

function copyButton(figure) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  button.textContent = t("turn.copy");
  button.addEventListener("click", async () => {
    if (!(await copy(figure.querySelector("code").textContent.replace(/\n$/, "")))) return;
    button.textContent = t("turn.copied");
    setTimeout(() => (button.textContent = t("turn.copy")), SAID_MS);
  });
  return button;
}
