/** The frame: list on the left, chat or status beside it, settings over it, and what is said to screen readers. */
import { defineAsyncComponent, h } from "../../vendor/vue.js";
import { t } from "../i18n.js";
import { simulated, store } from "../store.js";
import Chat from "./Chat.js";
import { IconButton } from "./Icon.js";
import Settings from "./Settings.js";
import Sidebar from "./Sidebar.js";

const AGAIN_MS = 1000;
const Status = defineAsyncComponent({
  loader: () => import("./Status.js"),
  onError: (error, retry) => setTimeout(retry, AGAIN_MS), // offline, most likely: the banner says so
});

function skipLink() {
  const focusBox = (event) => {
    event.preventDefault();
    document.querySelector(".box textarea")?.focus();
  };
  return h("a", { class: "skip", href: "#box", onClick: focusBox }, t("app.skip"));
}

function header() {
  const open = () => (store.menuOpen = true);
  const onStatus = store.view === "status";
  return h("header", { class: "top" }, [
    h(IconButton, { class: "only-narrow", icon: "menu", label: t("app.menu"), onClick: open }),
    h("h1", { class: "title", dir: "auto" }, onStatus ? t("status.title") : store.current.title || "tokenlane"),
    simulated() && h("span", { class: "badge", title: t("app.simulatedHint") }, t("app.simulated")),
    h(IconButton, { icon: "settings", label: t("app.settings"), onClick: () => (store.settingsOpen = true) }),
  ]);
}

/** What is wrong with the whole page, if anything is. */
function banner() {
  let text = "";
  if (!store.online) text = t("app.offline");
  else if (store.locked) text = t("turn.unauthorized");
  else if (store.problem) text = t("app.noService", { reason: store.problem });
  else if (!store.kept) text = t("app.memoryOnly");
  return text && h("p", { class: "banner", role: "status" }, text);
}

function toast() {
  const { text, action } = store.toast;
  const act = () => {
    store.toast = null;
    action.run();
  };
  return h("div", { class: "toast", role: "status" }, [
    h("span", { dir: "auto" }, text),
    action && h("button", { type: "button", class: "link", onClick: act }, action.label),
  ]);
}

export default function App() {
  return [
    skipLink(),
    h(Sidebar),
    h("main", { class: "main" }, [header(), banner(), store.view === "status" ? h(Status) : h(Chat)]),
    store.settingsOpen && h(Settings),
    store.toast && toast(),
    h("p", { class: "unseen", role: "status", "aria-live": "polite" }, store.announcement),
  ];
}
