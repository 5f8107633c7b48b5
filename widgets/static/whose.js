// Whose run a picture shows where the learner's function is not written yet.

import { node } from "./dom.js";
import { capital } from "./words.js";

// The names of a comparison are two, or the one of what stands there alone.
export function aloneNote(names) {
  return names.length === 1 ? node("p", { class: "sn-note" }, `${capital(names[0])}.`) : null;
}
