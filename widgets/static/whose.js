// Whose run a picture shows, where it stopped, and where it first differs from another's.

import { node } from "./dom.js";
import { textButton } from "./player.js";
import { capital } from "./words.js";

// The names of a comparison are two, or the one of what stands there alone.
export function aloneNote(names) {
  return names.length === 1 ? node("p", { class: "sn-note" }, `${capital(names[0])}.`) : null;
}

export function stopNote({ name, trace }) {
  const last = trace.steps[trace.steps.length - 1];
  const when = last ? `after step ${last.step}` : "before its first step";
  const who = capital(name || "the run");
  return node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, `${who} stopped ${when}: `), trace.error);
}

// A step of one side in words, `words()` where the run has that step.
export function sideWords({ trace, name }, index, words) {
  const who = name ? `${capital(name)}, ` : "";
  const last = trace.steps.length - 1;
  if (last < 0) return `${who}${name ? "no" : "No"} step was run.${trace.error ? ` It stopped: ${trace.error}` : ""}`;
  if (index > last) return `${capital(name || "the run")} ${trace.error ? "has stopped" : "is already done"}.`;
  const said = words();
  const stop = trace.error && index === last ? ` Here it stopped: ${trace.error}` : "";
  return `${who ? who + said[0].toLowerCase() + said.slice(1) : said}${stop}`;
}

// `index` is null where nothing differs.
export function differenceButton(index, moves) {
  const button = textButton("Jump to first difference", () => index !== null && moves.go(index));
  if (index === null) button.setAttribute("aria-disabled", "true");
  return button;
}
