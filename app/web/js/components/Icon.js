/** Line icons of 24 by 24 units. They say nothing to a screen reader: the button around them has the name. */
import { h } from "../../vendor/vue.js";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h10",
  close: "M6 6l12 12M18 6L6 18",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  status: "M4 12h4l2.5-7 4 14 2.5-7h3",
  chat: "M4 5.5h16v11H9.5L5 20.5v-4H4z",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7.5 7.5h9v9h-9z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M4 20l1-4L16.5 4.5l3 3L8 19z",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  chevron: "M9 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  alert: "M12 4l9 16H3zM12 10v4M12 17v.5",
  tool: "M14.5 6.5a4 4 0 0 0 5 5L11 20l-4-4 8.5-8.5M14.5 6.5L17 4a4.5 4.5 0 0 0-6 5.5",
};

export default function Icon({ name, filled }) {
  const line = h("path", { d: PATHS[name] });
  return h("svg", { class: ["icon", { filled }], viewBox: "0 0 24 24", "aria-hidden": "true" }, [line]);
}
Icon.props = ["name", "filled"];

/** A button with an icon alone; `label` is its name and its tooltip. */
export function IconButton(props, { attrs, slots }) {
  const { icon, label } = props;
  const content = [h(Icon, { name: icon }), slots.default?.()];
  const named = { type: "button", "aria-label": label, title: label };
  return h("button", { ...attrs, ...named, class: ["icon-button", attrs.class] }, content);
}
IconButton.props = ["icon", "label"];
IconButton.inheritAttrs = false;
