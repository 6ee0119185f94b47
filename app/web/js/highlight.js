/** Highlighting of code. The highlighter is fetched when the first code is shown; until then code is plain. */
import { ref } from "../vendor/vue.js";

/** Characters above which code stays plain: it would hold the page up. */
const LIMIT = 60_000;

let highlighter = null;
let asked = false;

/** Counts up when the highlighter has arrived: whoever has shown plain code renders again. */
export const arrivals = ref(0);

/** HTML with escaped text and spans, or null where the code stays plain. */
export function highlight(text, language) {
  if (!language || text.length > LIMIT) return null;
  if (!highlighter) {
    fetchIt();
    return null;
  }
  if (!highlighter.getLanguage(language)) return null;
  return highlighter.highlight(text, { language, ignoreIllegals: true }).value;
}

async function fetchIt() {
  if (asked) return;
  asked = true;
  try {
    highlighter = (await import("../vendor/highlight.js")).default;
    arrivals.value++;
  } catch {
    asked = false; // offline: the next code tries again
  }
}
