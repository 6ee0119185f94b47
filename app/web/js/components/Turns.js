/** What a person said, and what was answered. */
import { computed, h, nextTick, ref } from "../../vendor/vue.js";
import { regenerate, resend, running, tryNow } from "../chat.js";
import { copy } from "../clipboard.js";
import { duration, number, t } from "../i18n.js";
import { store } from "../store.js";
import { composes } from "./Box.js";
import Clock from "./Clock.js";
import Icon, { IconButton } from "./Icon.js";
import Markdown from "./Markdown.js";

const ON_ITS_WAY = new Set(["waiting", "streaming", "busy", "elsewhere"]);

/** A copy button that says that it did. */
const CopyButton = {
  props: ["text"],
  setup(props) {
    const copied = ref(false);
    const act = async () => {
      copied.value = await copy(props.text);
      setTimeout(() => (copied.value = false), 1600);
    };
    return () =>
      h(IconButton, {
        icon: copied.value ? "check" : "copy",
        label: t(copied.value ? "turn.copied" : "turn.copy"),
        onClick: act,
      });
  },
};

export const UserTurn = {
  props: ["message"],
  setup(props) {
    const editing = ref(false);
    const text = ref("");
    const area = ref(null);

    const edit = async () => {
      text.value = props.message.content;
      editing.value = true;
      await nextTick();
      area.value.focus();
    };
    const save = () => {
      editing.value = false;
      resend(props.message, text.value);
    };
    const keys = (event) => {
      if (composes(event)) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        editing.value = false;
      }
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        save();
      }
    };

    const editor = () =>
      h("div", { class: "editor" }, [
        h("textarea", {
          ref: area,
          dir: "auto",
          rows: Math.min(12, text.value.split("\n").length + 1),
          "aria-label": t("turn.editLabel"),
          value: text.value,
          onInput: (event) => (text.value = event.target.value),
          onKeydown: keys,
        }),
        h("div", { class: "editor-row" }, [
          h("button", { type: "button", class: "plain", onClick: () => (editing.value = false) }, t("turn.cancel")),
          h(
            "button",
            { type: "button", class: "primary", disabled: !text.value.trim(), onClick: save },
            t("turn.save"),
          ),
        ]),
      ]);

    return () =>
      h("article", { class: "turn user", "aria-label": t("turn.you") }, [
        editing.value ? editor() : h("div", { class: "said", dir: "auto" }, props.message.content),
        !editing.value &&
          h("div", { class: "actions" }, [
            h(CopyButton, { text: props.message.content }),
            h(IconButton, { icon: "edit", label: t("turn.edit"), disabled: running(), onClick: edit }),
          ]),
      ]);
  },
};

export const AnswerTurn = {
  props: ["message", "last"],
  setup(props) {
    const onItsWay = computed(() => ON_ITS_WAY.has(props.message.state));
    const parts = () => {
      const { message } = props;
      return [
        message.reasoning && h(Reasoning, { message, live: onItsWay.value && !message.content }),
        message.content && h(Markdown, { text: message.content, final: !onItsWay.value }),
        ...message.toolCalls.filter(Boolean).map(toolCall),
        isSilent(message) &&
          h("p", { class: "dots" }, [h("span", { class: "unseen" }, t("turn.waiting")), dot(), dot(), dot()]),
        h(Notice, { message }),
      ];
    };
    const actions = () => {
      const { message, last } = props;
      return h("div", { class: "actions" }, [
        message.content && h(CopyButton, { text: message.content }),
        last &&
          h(IconButton, {
            icon: "retry",
            label: t("turn.regenerate"),
            disabled: running(),
            onClick: () => regenerate(message),
          }),
      ]);
    };
    return () =>
      h(
        "article",
        {
          class: ["turn", "answer", { last: props.last }],
          "aria-label": t("turn.assistant"),
          "aria-busy": onItsWay.value,
        },
        [
          ...parts(),
          !onItsWay.value &&
            h("footer", { class: "under" }, [actions(), props.message.meta && meta(props.message.meta)]),
        ],
      );
  },
};

function isSilent({ state, reasoning, content, toolCalls }) {
  return (state === "waiting" || state === "streaming") && !reasoning && !content && !toolCalls.length;
}

function dot() {
  return h("span", { class: "dot", "aria-hidden": "true" });
}

/** The reasoning, folded away, with the time that it took. */
const Reasoning = {
  props: ["message", "live"],
  setup(props) {
    const began = performance.now();
    const unfolded = ref(false);
    const summary = () => {
      const { thinkingTime } = props.message;
      if (!props.live) return t("turn.thoughtFor", { time: duration(thinkingTime ?? 0) });
      return h(Clock, {
        text: () => t("turn.thinkingFor", { time: `${Math.floor((performance.now() - began) / 1000)} s` }),
      });
    };
    const toggled = (event) => (unfolded.value = event.target.open);
    return () =>
      h("details", { class: ["reasoning", { live: props.live }], onToggle: toggled }, [
        h("summary", [h(Icon, { name: "chevron" }), summary()]),
        unfolded.value && h("div", { class: "thoughts", dir: "auto" }, props.message.reasoning),
      ]);
  },
};

function toolCall(call) {
  return h("details", { class: "tool", open: true, key: call.id || call.name }, [
    h("summary", [h(Icon, { name: "tool" }), `${t("turn.tool")} `, h("code", call.name)]),
    h("pre", { dir: "ltr" }, [h("code", indented(call.arguments))]),
  ]);
}

function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // still growing, or not JSON
  }
}

/** Why an answer is not whole, and what can be done. */
function Notice({ message }) {
  const { state, problem } = message;
  if (state === "busy") return busy(problem);
  if (state === "failed") return failed(message);
  const text = remark(message);
  return text && h("p", { class: ["remark", state] }, text);
}
Notice.props = ["message"];

function remark({ state, finish, content, reasoning, toolCalls }) {
  if (state === "stopped") return t(content || reasoning ? "turn.stopped" : "turn.stoppedEmpty");
  if (state === "interrupted" || state === "elsewhere") return t(`turn.${state}`);
  if (state !== "done") return "";
  if (finish === "length") return t(content || toolCalls.length ? "turn.length" : "turn.lengthThinking");
  if (!["stop", "tool_calls", "function_call"].includes(finish)) return t("turn.filtered", { reason: finish });
  return content || toolCalls.length ? "" : t("turn.empty");
}

function busy({ message, until }) {
  const left = () => Math.max(0, Math.ceil((until - Date.now()) / 1000));
  return h("div", { class: "notice" }, [
    h("p", [h(Clock, { text: () => t("turn.busy", { message, seconds: left() }) })]),
    h("button", { type: "button", class: "plain", onClick: tryNow }, t("turn.retryNow")),
  ]);
}

function failed(message) {
  const { problem } = message;
  const settings = () => (store.settingsOpen = true);
  return h("div", { class: "notice error" }, [
    h("p", [h(Icon, { name: "alert" }), t(`turn.${problem.kind}`, problem)]),
    problem.kind === "unauthorized" &&
      h("button", { type: "button", class: "plain", onClick: settings }, t("app.settings")),
    h(
      "button",
      { type: "button", class: "plain", disabled: running(), onClick: () => regenerate(message) },
      t("turn.retry"),
    ),
  ]);
}

/** The way of an answer: only what is known. */
function meta({ lane, engine, queue, ttft, speed, tokens, overhead, request }) {
  const rows = [
    ["lane", lane],
    ["engine", engine],
    ["queue", queue === null ? null : duration(queue)],
    ["ttft", ttft === null ? null : duration(ttft)],
    ["speed", speed === null ? null : t("meta.speedValue", { n: number(speed, speed < 10 ? 1 : 0) })],
    ["tokens", tokens === null ? null : number(tokens)],
    ["overhead", overhead === null ? null : duration(overhead)],
  ];
  return h(
    "dl",
    { class: "meta", "aria-label": t("meta.label"), title: request ? t("meta.request", { id: request }) : null },
    rows
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) =>
        h("div", { key: name, class: `meta-${name}` }, [h("dt", t(`meta.${name}`)), h("dd", value)]),
      ),
  );
}
