/** Copying, also where the page came over plain http from another machine and `navigator.clipboard` is not there. */
import { t } from "./i18n.js";
import { toast } from "./store.js";

/** Resolves to whether it worked; where it did not, the person is told. */
export async function copy(text) {
  const worked = await (navigator.clipboard ? withClipboard(text) : withSelection(text));
  if (!worked) toast(t("turn.copyFailed"));
  return worked;
}

async function withClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return withSelection(text); // no permission
  }
}

function withSelection(text) {
  const area = document.createElement("textarea");
  const before = document.activeElement;
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const worked = document.execCommand("copy");
  area.remove();
  before?.focus();
  return worked;
}
