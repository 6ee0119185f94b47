/** Markdown that may still grow: one element a block, so that only the last one is touched while it does. */
import { h, onMounted, onUpdated, ref, render } from "../../vendor/vue.js";
import { copy } from "../clipboard.js";
import { arrivals } from "../highlight.js";
import { t } from "../i18n.js";
import { GrowingMarkdown } from "../markdown.js";
import Icon from "./Icon.js";

export default {
  props: ["text", "final"],
  setup(props) {
    const growing = new GrowingMarkdown();
    const root = ref(null);
    let seen = arrivals.value;

    const blocks = () => {
      if (arrivals.value !== seen) growing.reset(); // code that was shown plain can be highlighted now
      seen = arrivals.value;
      return growing.update(props.text, props.final);
    };
    const decorate = () => root.value.querySelectorAll("figure.code:not(.ready)").forEach(addCopyButton);
    onMounted(decorate);
    onUpdated(decorate);

    return () =>
      h(
        "div",
        { class: "markdown", ref: root },
        blocks().map(({ key, html }) => h("div", { key, class: "block", innerHTML: html })),
      );
  },
};

/** The button is no part of the model's HTML: nothing that a model writes is a control. */
function addCopyButton(figure) {
  figure.classList.add("ready");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  const show = (icon, label) => {
    render(h("span", { class: "copy-label" }, [h(Icon, { name: icon }), t(label)]), button);
  };
  show("copy", "turn.copy");
  button.addEventListener("click", async () => {
    if (!(await copy(figure.querySelector("code").textContent.replace(/\n$/, "")))) return;
    show("check", "turn.copied");
    setTimeout(() => show("copy", "turn.copy"), 1600);
  });
  figure.querySelector("figcaption").append(button);
}
