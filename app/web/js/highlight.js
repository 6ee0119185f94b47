/** Highlighting of code. The highlighter is fetched when the first code is shown; until then code is plain. */

/** Characters above which code stays plain: it would hold the page up. */
const LIMIT = 30_000;

let fetched = null;

function highlighter() {
  fetched ??= import("../vendor/highlight.js").then(
    (module) => module.default,
    () => {
      fetched = null; // offline: the next code tries again
      return null;
    },
  );
  return fetched;
}

let ready = null;

/** Whether `highlighted` answers at once. */
export function isReady() {
  return ready !== null;
}

/** Resolves when `highlighted` can be asked, or when it cannot be had now. */
export async function prepare() {
  ready = await highlighter();
}

/** HTML with escaped text and spans, or null where the code stays plain. */
export function highlighted(text, language) {
  if (text.length > LIMIT || !ready?.getLanguage(language)) return null;
  return ready.highlight(text, { language, ignoreIllegals: true }).value;
}
