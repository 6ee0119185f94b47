/** The lanes as they are now, and how they were in the last minutes. */
import { h, onBeforeUnmount, shallowRef } from "../../vendor/vue.js";
import { number, t } from "../i18n.js";
import { openStream } from "../stream.js";
import { requestHeaders } from "../settings.js";
import Plot from "./Plot.js";

const AGAIN_MS = 2000;

export default {
  setup() {
    const snapshot = shallowRef(null);
    const state = shallowRef("connecting");
    const abort = new AbortController();

    const read = async () => {
      const stream = await openStream("ui/status/stream", { signal: abort.signal, headers: requestHeaders() });
      for await (const { data } of stream.events) {
        snapshot.value = JSON.parse(data);
        state.value = snapshot.value.draining ? "draining" : "live";
      }
    };
    const follow = async () => {
      while (!abort.signal.aborted) {
        await read().catch(() => {}); // whatever ended it, another try follows
        if (abort.signal.aborted) return;
        state.value = "lost";
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    };
    follow();
    onBeforeUnmount(() => abort.abort());

    return () =>
      h("div", { class: "status scroller", tabindex: 0, role: "region", "aria-label": t("status.title") }, [
        h("p", { class: ["live", state.value], role: "status" }, t(`status.${state.value}`)),
        h(
          "div",
          { class: "lanes" },
          snapshot.value?.lanes.map((lane) => laneCard(lane, snapshot.value.slot_s)),
        ),
      ]);
  },
};

function laneCard(lane, slot) {
  const { name, minute, history } = lane;
  return h("section", { class: "lane", key: name, "aria-labelledby": `lane-${name}` }, [
    h("h2", { id: `lane-${name}` }, name),
    h("div", { class: "figures" }, [
      meter(t("status.running"), lane.running, lane.slots, lane.shared ? t("status.shared") : null),
      meter(t("status.queue"), lane.waiting, lane.queue),
      figure(t("status.speed"), number(history.tokens_s.at(-2) ?? 0), ""),
      figure(t("status.requests"), number(minute.requests), refusals(minute)),
    ]),
    plot("ttft", minute.ttft, history.ttft_p50, history.ttft_p95, slot),
    plot("itl", minute.itl, history.itl_p50, history.itl_p95, slot),
    flushes(minute),
    engines(lane.engines),
  ]);
}

function figure(label, value, more) {
  return h("div", { class: "figure" }, [
    h("span", { class: "figure-label" }, label),
    h("strong", value),
    h("span", { class: "figure-more" }, more),
  ]);
}

function refusals(minute) {
  return t(minute.refused || minute.failed ? "status.requestsMore" : "status.minute", minute);
}

function meter(label, value, most, hint = null) {
  const share = most ? Math.min(1, value / most) : 0;
  return h("div", { class: "figure", title: hint }, [
    h("span", { class: "figure-label" }, label),
    h("strong", [number(value), h("small", ` ${t("status.of", { n: number(most) })}`)]),
    bar(label, share),
  ]);
}

function bar(label, share) {
  const value = Math.round(share * 100);
  const meter = {
    role: "meter",
    "aria-label": label,
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": value,
  };
  return h("div", { class: "bar", ...meter }, [h("span", { style: { width: `${value}%` } })]);
}

function plot(kind, now, middle, high, slot) {
  const values = now
    ? ["p50", "p95", "p99"].map((name) =>
        h("span", { key: name }, [h("small", name), number(now[name], now[name] < 100 ? 1 : 0)]),
      )
    : [h("span", { key: "none" }, t("status.noData"))];
  return h("div", { class: "plot" }, [
    h("header", [
      h("h3", t(`status.${kind}`)),
      h("small", t("status.percentiles")),
      h("div", { class: "now" }, values),
    ]),
    h(Plot, { label: t(`status.${kind}`), middle, high, slot }),
  ]);
}

function flushes({ flushes: byReason, tokens_a_flush: size }) {
  const rows = Object.entries(byReason).sort(([, a], [, b]) => b - a);
  const all = rows.reduce((sum, [, count]) => sum + count, 0);
  const row = ([reason, count]) =>
    h("li", { key: reason }, [
      h("span", t(`reason.${reason}`)),
      bar(t(`reason.${reason}`), count / all),
      h("span", { class: "count" }, number(count)),
    ]);
  return h("div", { class: "flushes" }, [
    h("header", [
      h("h3", t("status.flushes")),
      h("small", t("status.minute")),
      size !== null && h("div", { class: "now" }, t("status.flushSize", { n: number(size, 1) })),
    ]),
    rows.length ? h("ul", rows.map(row)) : h("p", { class: "field-hint" }, t("status.noFlushes")),
  ]);
}

function engines(all) {
  const row = ({ name, state, reason, in_flight: busy, pool_size: most }) =>
    h("tr", { key: name }, [
      h("th", { scope: "row" }, name),
      h("td", [
        h("span", { class: ["state", state] }, t(`status.${state}`)),
        " ",
        state !== "closed" && h("small", reason),
      ]),
      h("td", { class: "count" }, `${number(busy)} / ${number(most)}`),
    ]);
  const heads = ["engine", "state", "load"].map((name) => h("th", { scope: "col", key: name }, t(`status.${name}`)));
  return h("table", { class: "engines" }, [
    h("caption", { class: "unseen" }, t("status.engines")),
    h("thead", [h("tr", heads)]),
    h("tbody", all.map(row)),
  ]);
}
