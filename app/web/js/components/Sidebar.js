/** The conversations: new, search, list; and the way to the status view. */
import { computed, h, nextTick, ref, watch } from "../../vendor/vue.js";
import { search } from "../conversations.js";
import { day, t } from "../i18n.js";
import { remove, rename, start, store } from "../store.js";
import Icon, { IconButton } from "./Icon.js";

export default {
  setup() {
    const words = ref("");
    const found = ref(null); // ids of the conversations whose messages hold the words
    const renaming = ref(null);

    watch(words, async (now) => {
      const ids = now.trim() ? await search(now.trim()) : null;
      if (now === words.value) found.value = ids;
    });
    const shown = computed(() => {
      const wanted = words.value.trim().toLowerCase();
      const holds = ({ id, title }) => title.toLowerCase().includes(wanted) || found.value?.has(id);
      return wanted ? store.conversations.filter(holds) : store.conversations;
    });

    const begin = () => {
      start();
      store.menuOpen = false;
      nextTick(() => document.querySelector(".box textarea")?.focus());
    };
    const close = () => (store.menuOpen = false);

    const item = (conversation) =>
      h(Item, {
        key: conversation.id,
        conversation,
        renaming: renaming.value === conversation.id,
        onRename: () => (renaming.value = conversation.id),
        onRenamed: () => (renaming.value = null),
      });

    const list = () => {
      if (shown.value.length) return h("ul", { class: "list" }, shown.value.map(item));
      return h("p", { class: "list-empty" }, t(words.value.trim() ? "list.nothing" : "list.empty"));
    };

    return () => [
      store.menuOpen && h("div", { class: "shade only-narrow", onClick: close }),
      h(
        "nav",
        {
          class: ["side", { open: store.menuOpen }],
          "aria-label": t("list.label"),
          onKeydown: (event) => event.key === "Escape" && close(),
        },
        [
          h("div", { class: "brand" }, [
            h("span", { class: "mark", "aria-hidden": "true" }),
            h("span", "tokenlane"),
            h(IconButton, { class: "only-narrow", icon: "close", label: t("app.closeMenu"), onClick: close }),
          ]),
          h("button", { type: "button", class: "new", onClick: begin }, [h(Icon, { name: "plus" }), t("list.new")]),
          h("label", { class: "search" }, [
            h(Icon, { name: "search" }),
            h("input", {
              type: "search",
              "aria-label": t("list.search"),
              placeholder: t("list.search"),
              value: words.value,
              onInput: (event) => (words.value = event.target.value),
            }),
          ]),
          list(),
          h(
            "a",
            {
              class: ["to-status", { here: store.view === "status" }],
              href: store.view === "status" ? `#/c/${store.current.id}` : "#/status",
            },
            [
              h(Icon, { name: store.view === "status" ? "chat" : "status" }),
              t(store.view === "status" ? "app.chat" : "app.status"),
            ],
          ),
        ],
      ),
    ];
  },
};

/** One conversation of the list. */
const Item = {
  props: ["conversation", "renaming"],
  emits: ["rename", "renamed"],
  setup(props, { emit }) {
    const input = ref(null);
    watch(
      () => props.renaming,
      (now) => now && nextTick(() => input.value?.select()),
    );

    const keys = (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") event.target.blur();
      if (event.key === "Escape") {
        event.stopPropagation();
        event.target.value = props.conversation.title;
        event.target.blur();
      }
    };
    const done = async (event) => {
      const title = event.target.value;
      emit("renamed");
      if (title !== props.conversation.title) await rename(props.conversation.id, title);
    };

    return () => {
      const { id, title: given, updated } = props.conversation;
      const title = given || t("list.untitled");
      if (props.renaming) {
        const handlers = { onKeydown: keys, onBlur: done };
        const field = h("input", {
          ref: input,
          class: "rename",
          "aria-label": t("list.title"),
          value: given,
          ...handlers,
        });
        return h("li", [field]);
      }
      const here = store.view === "chat" && store.current.id === id;
      return h("li", { class: { here } }, [
        h("a", { href: `#/c/${id}`, "aria-current": here ? "page" : null, title }, [
          h("span", { class: "name", dir: "auto" }, title),
          store.jobs.has(id)
            ? h("span", { class: "pulse", "aria-label": t("turn.waiting") })
            : h("time", { class: "when" }, day(updated)),
        ]),
        h("span", { class: "tools" }, [
          h(IconButton, { icon: "edit", label: t("list.rename", { title }), onClick: () => emit("rename") }),
          h(IconButton, { icon: "trash", label: t("list.delete", { title }), onClick: () => remove(id) }),
        ]),
      ]);
    };
  },
};
