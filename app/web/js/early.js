/**
 * Before the first paint: theme, font size and language as they were chosen, so that nothing flashes. And where a module
 * does not arrive, as when the network changes while the page loads, the page is loaded again, a few times.
 */
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

  const TRIES = "tokenlane.tries";
  const again = () => {
    try {
      const tries = Number(sessionStorage.getItem(TRIES));
      sessionStorage.setItem(TRIES, tries + 1);
      if (tries < 3) setTimeout(() => location.reload(), 300 * 2 ** tries);
    } catch {
      // without storage there is no counting, and without counting no end
    }
  };
  addEventListener("error", (event) => event.target.tagName === "SCRIPT" && again(), true);
})();
