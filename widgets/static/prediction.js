// A question, a committed prediction, and only then the answer, here and in all that waits for it.

import { markAnswered } from "./answered.js";
import { freshId, mount, node, richText } from "./dom.js";
import { watchRows } from "./waiting_rows.js";
import { parsedNumber, verdictOf, verdictWords } from "./prediction_words.js";

function optionField(model, name, saved) {
  const options = model.get("options");
  const inputs = options.map((option, index) => {
    const input = node("input", { type: "radio", name, value: index, checked: saved === index });
    const row = node("label", { class: "sn-pr-option" }, input, node("span", {}, ...richText(option)));
    return { input, row };
  });
  const read = () => {
    const index = inputs.findIndex(({ input }) => input.checked);
    return index < 0 ? null : index;
  };
  const lock = () => inputs.forEach(({ input, row }, index) => {
    input.disabled = true;
    row.classList.toggle("sn-pr-chosen", input.checked);
    row.classList.toggle("sn-pr-right", index === model.get("answer"));
  });
  return { elements: inputs.map(({ row }) => row), read, lock, missing: "Choose one first." };
}

function numberField(saved) {
  const input = node("input", {
    type: "text", inputmode: "decimal", autocomplete: "off", class: "sn-pr-number", value: saved,
  });
  const row = node("label", { class: "sn-pr-numberrow" }, node("span", {}, "Your number"), input);
  const lock = () => {
    input.disabled = true;
  };
  return { elements: [row], read: () => parsedNumber(input.value), lock, missing: "Type a number first." };
}

function revealOf(model) {
  const choice = model.get("committed") ? model.get("choice") : null;
  const verdict = verdictOf(choice, model.get("answer"));
  const words = verdictWords(choice, model.get("answer"), model.get("options"));
  const kind = verdict === "right" ? "sn-note sn-note-good" : "sn-note";
  const text = model.get("reveal");
  return node(
    "div", { class: `${kind} sn-pr-reveal` },
    node("p", { class: "sn-pr-verdict" }, ...richText(words)),
    text ? node("p", {}, ...richText(text)) : null,
  );
}

function build(root, model) {
  const saved = model.get("choice");
  const field = model.get("options").length
    ? optionField(model, freshId("prediction"), saved) : numberField(saved);
  const message = node("p", { class: "sn-pr-message" });
  const outcome = node("div", { "aria-live": "polite" });
  const commit = node("button", { type: "submit", class: "sn-button sn-button-main" }, "Commit");
  const show = node("button", { type: "button", class: "sn-button" }, "Show me");
  const form = node(
    "form", { class: "sn-pr-form", novalidate: true },
    node("fieldset", {}, node("legend", {}, node("span", { class: "sn-pr-eyebrow" }, "Predict first"), node("span", { class: "sn-pr-question" }, ...richText(model.get("question")))), ...field.elements),
    node("div", { class: "sn-pr-actions" }, commit, show, message),
  );
  const isSettled = () => model.get("committed") || model.get("shown");
  const settle = () => {
    field.lock();
    commit.hidden = show.hidden = true;
    message.textContent = "";
    outcome.replaceChildren(revealOf(model));
    markAnswered(model.get("key"));
  };
  const reveal = (changes) => {
    if (isSettled()) return;
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    settle();
    // The button that had the focus is gone; the reader goes on at the answer.
    outcome.tabIndex = -1;
    outcome.focus({ preventScroll: true });
  };
  const keep = (event) => event.stopPropagation();
  form.addEventListener("keydown", keep);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const choice = field.read();
    message.textContent = choice === null ? field.missing : "";
    if (choice !== null) reveal({ choice, committed: true });
  });
  show.addEventListener("click", () => reveal({ shown: true }));
  root.dataset.key = model.get("key");
  root.append(form, outcome);
  const destroy = watchRows(model.get("key"));
  if (isSettled()) settle();
  return { destroy };
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "prediction", label: "Prediction",
    inputs: ["question", "options", "answer", "reveal"],
    build: (root) => build(root, model),
  }),
};
