// What lies ahead of the cursor: shaded, and its words once more above the shade, in ink.

import { freshId, svg } from "./dom.js";

// `drawn` holds the words, in no moved group; `box` is the shade's { y, height }. `move(x, width)`
// puts the shade where the steps to come are.
export function createAhead(drawn, box) {
  const id = freshId("ahead");
  const shade = svg("rect", { ...box, class: "sn-shade" });
  const edge = svg("rect", box);
  const words = [...drawn.querySelectorAll("text")].map((text) => text.cloneNode(true));
  const element = svg(
    "g", {}, svg("clipPath", { id }, edge), shade,
    svg("g", { class: "sn-ahead", "clip-path": `url(#${id})` }, ...words),
  );
  const move = (x, width) => {
    for (const each of [shade, edge]) {
      each.setAttribute("x", x);
      each.setAttribute("width", Math.max(0, width));
    }
  };
  return { element, move };
}
