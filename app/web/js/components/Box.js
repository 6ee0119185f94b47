/** The box: what is written to the model, which model and lane, send and stop. */
import { h, nextTick, onMounted, ref, watch } from "../../vendor/vue.js";
import { running, send, stop } from "../chat.js";
import { t } from "../i18n.js";
import { settings } from "../settings.js";
import { store } from "../store.js";
import Icon from "./Icon.js";

/** Whether this key press ends a composition of an input method instead of meaning Enter. */
export function composes(event) {
  return event.isComposing || event.keyCode === 229;
}

function picker(name, label, options) {
  const change = (event) => (settings[name] = event.target.value);
  return h(
    "select",
    { class: "picker", "aria-label": label, value: settings[name], onChange: change, disabled: !options.length },
    options.map(([value, text]) => h("option", { key: value, value, selected: value === settings[name] }, text)),
  );
}

export function modelOptions() {
  return store.models.length ? store.models.map((id) => [id, id]) : [["", t("box.noModel")]];
}

export function laneOptions() {
  if (!store.config) return [];
  const fallback = t("box.defaultLane", { lane: store.config.default_lane });
  return [["", fallback], ...store.config.lanes.map(({ name }) => [name, name])];
}

export default {
  setup() {
    const text = ref("");
    const area = ref(null);
    let early = false; // sent before the gateway has said which models there are

    const fit = () => {
      const { style } = area.value;
      style.height = "auto";
      style.height = `${area.value.scrollHeight}px`;
    };
    const submit = () => {
      if (running() || !text.value.trim()) return;
      early = !store.models.length;
      if (early) return;
      send(text.value);
      text.value = "";
    };
    const keys = (event) => {
      if (event.key !== "Enter" || event.shiftKey || composes(event)) return;
      event.preventDefault();
      submit();
    };

    watch(text, () => nextTick(fit));
    watch(
      () => store.models,
      () => early && submit(),
    );
    onMounted(() => {
      performance.mark("usable"); // what tests/page/test_speed.py measures
      fit();
      if (matchMedia("(hover: hover)").matches) area.value.focus({ preventScroll: true });
    });

    const button = () =>
      running()
        ? h(
            "button",
            {
              type: "button",
              key: "stop",
              class: "send stop",
              "aria-label": t("box.stop"),
              title: `${t("box.stop")} (Esc)`,
              onClick: stop,
            },
            [h(Icon, { name: "stop", filled: true })],
          )
        : h(
            "button",
            {
              type: "submit",
              key: "send",
              class: "send",
              "aria-label": t("box.send"),
              title: t("box.send"),
              disabled: !text.value.trim() || !store.models.length,
            },
            [h(Icon, { name: "send" })],
          );

    return () =>
      h(
        "form",
        {
          class: "box",
          id: "box",
          onSubmit: (event) => {
            event.preventDefault();
            submit();
          },
        },
        [
          h("textarea", {
            ref: area,
            rows: 1,
            dir: "auto",
            "aria-label": t("box.label"),
            "aria-describedby": "box-hint",
            placeholder: t("box.placeholder"),
            enterkeyhint: "send",
            value: text.value,
            onInput: (event) => {
              text.value = event.target.value;
              early = false;
            },
            onKeydown: keys,
          }),
          h("div", { class: "box-row" }, [
            picker("model", t("box.model"), modelOptions()),
            picker("lane", t("box.lane"), laneOptions()),
            h("span", { class: "hint", id: "box-hint" }, t("box.hint")),
            button(),
          ]),
        ],
      );
  },
};
