/** One live plot: the median and the 95th percentile, a value a slot, the latest at the right. */
import { h, onBeforeUnmount, onMounted, ref, watch } from "../../vendor/vue.js";
import UPlot from "../../vendor/uplot.js";
import { settings } from "../settings.js";

const HEIGHT = 132;

function ages(count, slot) {
  return Array.from({ length: count }, (_, i) => (i - count + 1) * slot);
}

/** The colour behind a custom property, as a canvas understands it. */
function resolver(root) {
  const probe = root.appendChild(document.createElement("i"));
  const colors = {};
  for (const name of ["--plot-1", "--plot-2", "--plot-grid", "--plot-text"]) {
    probe.style.color = `var(${name})`;
    colors[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return (name) => colors[name];
}

function options(root) {
  const color = resolver(root);
  const axis = {
    stroke: color("--plot-text"),
    font: `11px ${getComputedStyle(root).fontFamily}`,
    grid: { stroke: color("--plot-grid"), width: 1 },
    ticks: { show: false },
  };
  const line = (label, name) => ({
    label,
    stroke: color(name),
    width: 2,
    spanGaps: true,
    points: { show: true, size: 4, fill: color(name) },
  });
  const minutes = (_, values) => values.map((age) => (age ? `${age / 60} min` : "0"));
  return {
    width: root.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(1, (high ?? 0) * 1.15)] } },
    axes: [
      { ...axis, values: minutes, splits: () => [-240, -180, -120, -60, 0], size: 24, gap: 4 },
      { ...axis, size: 44, gap: 4 },
    ],
    series: [{}, line("p50", "--plot-1"), line("p95", "--plot-2")],
  };
}

export default {
  props: ["label", "middle", "high", "slot"],
  setup(props) {
    const root = ref(null);
    let plot = null;
    let resizes = null;
    const dark = matchMedia("(prefers-color-scheme: dark)");

    const data = () => [ages(props.middle.length, props.slot), props.middle, props.high];
    const draw = () => {
      plot?.destroy();
      plot = new UPlot(options(root.value), data(), root.value);
    };
    const redraw = () => requestAnimationFrame(() => root.value && draw());

    onMounted(() => {
      draw();
      resizes = new ResizeObserver(() => plot.setSize({ width: root.value.clientWidth, height: HEIGHT }));
      resizes.observe(root.value);
      dark.addEventListener("change", redraw);
    });
    onBeforeUnmount(() => {
      resizes.disconnect();
      dark.removeEventListener("change", redraw);
      plot.destroy();
    });
    watch(
      () => [props.middle, props.high],
      () => plot.setData(data()),
    );
    watch(() => settings.theme, redraw);

    return () => h("div", { class: "plot-area", ref: root, role: "img", "aria-label": props.label });
  },
};
