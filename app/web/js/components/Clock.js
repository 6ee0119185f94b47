/** A text that depends on the time: written anew four times a second, and not read out each time. */
import { h, onBeforeUnmount, ref } from "../../vendor/vue.js";

export default {
  props: ["text"],
  setup(props) {
    const ticks = ref(0);
    const timer = setInterval(() => ticks.value++, 250);
    onBeforeUnmount(() => clearInterval(timer));
    return () => h("span", { class: "clock", "data-tick": ticks.value % 4 }, props.text());
  },
};
