/** The settings, in a drawer over the page: a native dialog, so that focus, Escape and what lies behind are right. */
import { h, onMounted, ref } from "../../vendor/vue.js";
import { exported, imported } from "../conversations.js";
import { t } from "../i18n.js";
import { DEFAULTS, secret, settings } from "../settings.js";
import { loadList, removeAll, store, toast } from "../store.js";
import { laneOptions, modelOptions } from "./Box.js";
import { IconButton } from "./Icon.js";

function field(name, label, control, hint = "") {
  const id = `set-${name}`;
  return h("div", { class: "field", key: name }, [
    h("label", { for: id }, label),
    control({ id, "aria-describedby": hint ? `${id}-hint` : null }),
    hint && h("p", { class: "field-hint", id: `${id}-hint` }, hint),
  ]);
}

function numberField(name, label, { min, max, step, placeholder = t("set.serverDefault"), hint }) {
  const change = ({ target }) => {
    if (target.validity.valid) settings[name] = target.value;
  };
  const control = (given) =>
    h("input", {
      type: "number",
      inputmode: "decimal",
      min,
      max,
      step,
      placeholder,
      value: settings[name],
      onInput: change,
      ...given,
    });
  return field(name, label, control, hint);
}

function textField(name, label, hint, rows) {
  const change = ({ target }) => (settings[name] = target.value);
  return field(
    name,
    label,
    (given) => h("textarea", { rows, dir: "auto", value: settings[name], onInput: change, ...given }),
    hint,
  );
}

function choice(name, label, options) {
  const change = ({ target }) => (settings[name] = target.value);
  const control = (given) =>
    h(
      "select",
      { value: settings[name], onChange: change, ...given },
      options.map(([value, text]) => h("option", { key: value, value, selected: value === settings[name] }, text)),
    );
  return field(name, label, control);
}

function section(name, content) {
  const id = `set-section-${name}`;
  return h("section", { class: "set", "aria-labelledby": id, key: name }, [
    h("h3", { id }, t(`set.${name}`)),
    ...content,
  ]);
}

function sampling() {
  return section("sampling", [
    textField("system", t("set.system"), t("set.systemHint"), 3),
    h("div", { class: "pair" }, [
      numberField("temperature", t("set.temperature"), { min: 0, max: 2, step: "any" }),
      numberField("topP", t("set.topP"), { min: 0, max: 1, step: "any" }),
      numberField("maxTokens", t("set.maxTokens"), { min: 1, step: 1 }),
      numberField("seed", t("set.seed"), { step: 1, placeholder: t("set.none") }),
    ]),
    choice("effort", t("set.effort"), [
      ["", t("set.serverDefault")],
      ["low", t("set.low")],
      ["medium", t("set.medium")],
      ["high", t("set.high")],
    ]),
    textField("stop", t("set.stop"), t("set.stopHint"), 2),
  ]);
}

/** The buffer of the chosen lane stands in the empty fields. */
function buffer() {
  const { lanes = [], default_lane: fallback, bounds } = store.config ?? {};
  const lane = lanes.find(({ name }) => name === (settings.lane || fallback));
  const [tokens, delay] = [bounds?.tokens ?? [1, 64], bounds?.delay_ms ?? [0, 1000]];
  const limits = ([min, max], value) => ({ min, max, step: 1, placeholder: value === undefined ? "" : String(value) });
  return section("buffer", [
    h("p", { class: "field-hint" }, t("set.bufferHint")),
    h("div", { class: "pair" }, [
      numberField("bufferTokens", t("set.bufferTokens"), limits(tokens, lane?.buffer.tokens)),
      numberField("bufferDelay", t("set.bufferDelay"), limits(delay, lane?.buffer.delay_ms)),
    ]),
  ]);
}

function access() {
  const key = (given) =>
    h("input", {
      type: "password",
      autocomplete: "off",
      spellcheck: false,
      placeholder: "sk-…",
      value: secret.key,
      onChange: ({ target }) => (secret.key = target.value.trim()),
      ...given,
    });
  const keep = ({ target }) => (settings.keepKey = target.checked);
  return section("access", [
    field("key", t("set.key"), key, t("set.keyHint")),
    h("label", { class: "check" }, [
      h("input", { type: "checkbox", checked: settings.keepKey, onChange: keep }),
      t("set.keepKey"),
    ]),
  ]);
}

function look() {
  return section("look", [
    h("div", { class: "pair" }, [
      choice("theme", t("set.theme"), [
        ["auto", t("set.auto")],
        ["light", t("set.light")],
        ["dark", t("set.dark")],
      ]),
      choice("language", t("set.language"), [
        ["auto", t("set.auto")],
        ["en", "English"],
        ["zh", "中文"],
      ]),
      choice("fontSize", t("set.fontSize"), [
        ["small", t("set.small")],
        ["medium", t("set.medium")],
        ["large", t("set.large")],
      ]),
    ]),
  ]);
}

async function save() {
  const blob = new Blob([JSON.stringify(await exported(), null, 1)], { type: "application/json" });
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = `tokenlane-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  URL.revokeObjectURL(url);
}

async function read({ target }) {
  const [file] = target.files;
  target.value = "";
  if (!file) return;
  try {
    const count = await imported(JSON.parse(await file.text()));
    await loadList();
    toast(t("set.imported", { n: count }));
  } catch {
    toast(t("set.importFailed"));
  }
}

/** Everything of the conversations at once. `sure` is whether "delete all" was pressed before. */
function data(sure, file) {
  const all = async () => {
    sure.value = !sure.value;
    if (sure.value) return;
    await removeAll();
    toast(t("set.allDeleted"));
  };
  const nothing = !store.conversations.length;
  const remove = { type: "button", class: ["plain", "danger"], disabled: nothing, onClick: all };
  return section("data", [
    h("div", { class: "row" }, [
      h("button", { type: "button", class: "plain", disabled: nothing, onClick: save }, t("set.export")),
      h("button", { type: "button", class: "plain", onClick: () => file.value.click() }, t("set.import")),
      h("input", { ref: file, type: "file", accept: "application/json,.json", hidden: true, onChange: read }),
      h("button", remove, t(sure.value ? "set.deleteAllSure" : "set.deleteAll")),
    ]),
  ]);
}

function foot() {
  const reset = () => Object.assign(settings, { ...DEFAULTS, model: settings.model, keepKey: settings.keepKey });
  return h("div", { class: "set-foot" }, [
    h("button", { type: "button", class: "plain", onClick: reset }, t("set.reset")),
    store.config && h("span", t("set.version", { version: store.config.version })),
  ]);
}

export default {
  setup() {
    const dialog = ref(null);
    const file = ref(null);
    const sure = ref(false);
    onMounted(() => dialog.value.showModal());
    const close = () => dialog.value.close();
    const closed = () => (store.settingsOpen = false);
    const outside = (event) => event.target === dialog.value && close();
    return () =>
      h("dialog", { ref: dialog, class: "drawer", "aria-labelledby": "set-title", onClose: closed, onClick: outside }, [
        h("div", { class: "drawer-inside" }, [
          h("header", [
            h("h2", { id: "set-title" }, t("set.title")),
            h(IconButton, { icon: "close", label: t("app.close"), onClick: close }),
          ]),
          section("model", [
            choice("model", t("box.model"), modelOptions()),
            choice("lane", t("box.lane"), laneOptions()),
          ]),
          sampling(),
          buffer(),
          access(),
          look(),
          data(sure, file),
          foot(),
        ]),
      ]);
  },
};
