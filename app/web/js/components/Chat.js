/** The conversation that is open, and the box to write in. */
import { h, nextTick, onBeforeUnmount, onMounted, ref, watch } from "../../vendor/vue.js";
import { running, send, stop } from "../chat.js";
import { t } from "../i18n.js";
import { simulated, store } from "../store.js";
import Box from "./Box.js";
import { IconButton } from "./Icon.js";
import { AnswerTurn, UserTurn } from "./Turns.js";

/** Messages that are rendered at first, and with each step back. */
const STEP = 20;

/** Pixels from the end within which the page follows what is written. */
const NEAR = 48;

export default {
  setup() {
    const scroller = ref(null);
    const content = ref(null);
    const count = ref(STEP);
    const follows = ref(true);
    let observer = null;
    let top = 0;

    const toEnd = () => {
      follows.value = true;
      const element = scroller.value;
      if (element) element.scrollTop = element.scrollHeight;
    };
    // Only a way up is a person's: the text may have grown between a scroll of ours and its event.
    const scrolled = () => {
      const { scrollTop, scrollHeight, clientHeight } = scroller.value;
      if (scrollHeight - scrollTop - clientHeight < NEAR) follows.value = true;
      else if (scrollTop < top) follows.value = false;
      top = scrollTop;
    };
    // A wheel turned up ends the following at once: a stream at speed would win over the scroll event.
    const wheel = (event) => {
      if (event.deltaY < 0) follows.value = false;
    };
    const earlier = async () => {
      const element = scroller.value;
      const below = element.scrollHeight - element.scrollTop;
      count.value += STEP;
      await nextTick();
      element.scrollTop = element.scrollHeight - below;
    };

    onMounted(() => {
      observer = new ResizeObserver(() => follows.value && toEnd());
      observer.observe(content.value);
    });
    onBeforeUnmount(() => observer.disconnect());
    watch(
      () => store.current.id,
      () => {
        count.value = STEP;
        nextTick(toEnd);
      },
    );
    watch(
      () => store.current.messages.length,
      () => nextTick(toEnd),
    );

    const keys = (event) => {
      if (event.key === "Escape" && running() && !event.isComposing) stop();
    };

    const turn = (message, last) =>
      h(message.role === "user" ? UserTurn : AnswerTurn, { key: message.id, message, last });

    const thread = (messages) => {
      const hidden = Math.max(0, messages.length - count.value);
      const shown = messages.slice(hidden);
      return h("div", { class: "thread", ref: content }, [
        hidden > 0 && h("button", { type: "button", class: "quiet", onClick: earlier }, t("turn.earlier")),
        h(
          "ol",
          { class: "turns" },
          shown.map((message, i) => h("li", { key: message.id }, [turn(message, i === shown.length - 1)])),
        ),
      ]);
    };

    return () => {
      const { messages } = store.current;
      return h("div", { class: ["chat", { fresh: !messages.length }], onKeydown: keys }, [
        h("div", { class: "scroller", ref: scroller, tabindex: -1, onScroll: scrolled, onWheelPassive: wheel }, [
          messages.length ? thread(messages) : h("div", { class: "welcome-space", ref: content }, [welcome()]),
        ]),
        h("div", { class: "dock" }, [
          !follows.value &&
            messages.length > 0 &&
            h(IconButton, { class: "to-end", icon: "down", label: t("turn.latest"), onClick: toEnd }),
          h(Box),
        ]),
      ]);
    };
  },
};

function welcome() {
  const ideas = [1, 2, 3, 4].map((n) => t(`welcome.${n}`));
  return h("section", { class: "welcome" }, [
    h("h2", t("welcome.title")),
    simulated() && h("p", { class: "note" }, t("app.simulatedHint")),
    h(
      "ul",
      ideas.map((idea) =>
        h("li", { key: idea }, [
          h(
            "button",
            { type: "button", class: "idea", disabled: !store.models.length, onClick: () => send(idea) },
            idea,
          ),
        ]),
      ),
    ),
  ]);
}
