// Three hints, one more at every press.

import { mount, node, richText } from "./dom.js";

const RUNGS = ["A direction", "The idea", "Almost the answer"];

function rung(hint, index) {
  return node("li", { class: "sn-hi-rung" },
    node("span", { class: "sn-hi-name" }, RUNGS[index]), node("p", {}, ...richText(hint)));
}

function build(root, model) {
  const hints = model.get("hints");
  const list = node("ol", { class: "sn-hi-list", "aria-live": "polite" });
  const label = node("span", {});
  const dots = node("span", { class: "sn-hi-dots", "aria-hidden": "true" });
  const button = node("button", { type: "button", class: "sn-button" }, label, dots);
  const draw = () => {
    const shown = model.get("shown");
    // Only what is new is added, so that a screen reader hears only that.
    while (list.children.length > shown) list.lastChild.remove();
    while (list.children.length < shown) list.append(rung(hints[list.children.length], list.children.length));
    const next = shown === 0 ? "Show a hint" : `Show hint ${shown + 1} of ${hints.length}`;
    label.textContent = shown < hints.length ? next : "All hints are shown";
    button.setAttribute("aria-disabled", String(shown >= hints.length));
    dots.replaceChildren(...hints.map((_, index) => node("i", { class: index < shown ? "sn-hi-used" : "" })));
  };
  button.addEventListener("click", () => {
    if (model.get("shown") >= hints.length) return;
    model.set("shown", model.get("shown") + 1);
    model.save_changes();
    draw();
  });
  button.addEventListener("keydown", (event) => event.stopPropagation());
  model.on("change:shown", draw);
  root.append(list, button);
  draw();
  return { destroy: () => model.off("change:shown", draw) };
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "hints", label: "Hints", inputs: ["hints"], build: (root) => build(root, model),
  }),
};
