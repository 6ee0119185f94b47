/** Markdown that may still grow: one element a block, so that only the last one is touched while it does. */
import { h, onMounted, ref, watch } from "../../vendor/vue.js";
import { show } from "../blocks.js";
import { GrowingMarkdown } from "../markdown.js";

const Block = {
  props: ["html", "growing"],
  setup(props) {
    const root = ref(null);
    const update = () => show(root.value, props.html, props.growing);
    onMounted(update);
    watch(() => [props.html, props.growing], update, { flush: "post" });
    return () => h("div", { class: "block", ref: root });
  },
};

export default {
  props: ["text", "final"],
  setup(props) {
    const growing = new GrowingMarkdown();
    return () =>
      h(
        "div",
        { class: "markdown" },
        growing.update(props.text, props.final).map((block) => h(Block, block)),
      );
  },
};
