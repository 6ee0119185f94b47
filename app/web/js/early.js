/** Before the first paint: theme, font size and language as they were chosen, so that nothing flashes. */
(() => {
  let chosen = {};
  try {
    chosen = JSON.parse(localStorage.getItem("tokenlane.settings") ?? "{}") ?? {};
  } catch {
    chosen = {}; // storage is off, or holds something else
  }
  const root = document.documentElement;
  if (["light", "dark"].includes(chosen.theme)) root.dataset.theme = chosen.theme;
  if (["small", "large"].includes(chosen.fontSize)) root.dataset.fontSize = chosen.fontSize;
  root.lang = { en: "en", zh: "zh-Hans" }[chosen.language] ?? (/^zh\b/.test(navigator.language) ? "zh-Hans" : "en");
})();
