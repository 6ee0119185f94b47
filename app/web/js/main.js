/** Starts the page. */
import { createApp, watch } from "../vendor/vue.js";
import App from "./components/App.js";
import { settings, secret, startKeeping } from "./settings.js";
import { applyLook, followOtherTabs, keepAll, loadList, loadService, open, start, store } from "./store.js";

const listed = loadList();

/** Shows what the address says: `#/` a new conversation, `#/c/ID` one of the list, `#/status` the lanes. */
async function route() {
  await listed; // an address that comes while the page starts names a conversation that is about to be known
  const [, view, id] = location.hash.split("/");
  store.view = view === "status" ? "status" : "chat";
  store.menuOpen = false;
  if (view === "c" && id) await open(id);
  else if (view !== "status") start();
}

startKeeping();
createApp(App).mount("#app");
watch([settings, () => store.view, () => store.current.title], applyLook, { immediate: true });
watch(() => secret.key, loadService);
window.addEventListener("hashchange", route);
window.addEventListener("online", () => {
  store.online = true;
  loadService();
});
window.addEventListener("offline", () => (store.online = false));
window.addEventListener("pagehide", keepAll);
document.addEventListener("visibilitychange", () => document.hidden && keepAll());
followOtherTabs();
loadService();
route();
