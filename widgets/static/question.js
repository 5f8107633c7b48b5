// The question that a picture answers, above it, in the page's own type.

import { node, richText } from "./dom.js";

export function askAbove(root, model) {
  const question = model.get("question");
  if (question) root.prepend(node("p", { class: "sn-question" }, ...richText(question)));
}
