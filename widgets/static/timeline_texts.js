// The table below the timeline: texts so far, TTFT, longest ITL.

import { requestHue } from "./column_picture.js";
import { node, svg } from "./dom.js";
import { gapsOf, generatedAt } from "./timeline_layout.js";
import { tokenMark } from "./timeline_words.js";
import { duration } from "./words.js";

function markedText(tokens, alphabet, className) {
  const parts = tokens.map((token) => {
    const mark = tokenMark(token, alphabet);
    if (mark === "sp") return " ";
    return mark.length > 1 ? node("span", { class: "sn-tl-escape" }, mark) : mark;
  });
  return node("span", { class: className }, ...parts);
}

function gapBar(gap, longest, className) {
  const width = gap === null ? 0 : Math.max(2, (gap / longest) * 100);
  const bar = svg("rect", { x: 0, y: 0, width, height: 8, rx: 2, class: className });
  return svg("svg", { class: "sn-tl-gap", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, bar);
}

// A line per side in each of a request's two cells of times; `gaps` are one for each side.
function timeLines(sides, gaps, longest) {
  const line = (at, ...words) => {
    const who = sides[at].name ? node("span", { class: "sn-tl-who" }, sides[at].name) : null;
    return node("span", { class: "sn-tl-gapline" }, who, ...words);
  };
  const said = (us) => node("span", {}, us === null ? "none yet" : duration(us));
  const barClass = (at) => (at > 0 ? "sn-tl-gap-other" : "sn-tl-gap-bar");
  return {
    first: gaps.map(({ firstUs }, at) => line(at, said(firstUs))),
    worst: gaps.map(({ worstUs }, at) => line(at, gapBar(worstUs, longest, barClass(at)), said(worstUs))),
  };
}

// The table of what there is so far: texts, TTFT, longest ITL; returns it and its update.
export function textTable(sides, alphabet) {
  const { trace } = sides[0];
  const longest = Math.max(1, ...sides.flatMap((side) => gapsOf(side.trace).map((gap) => gap.worstUs ?? 0)));
  const cells = new Map();
  const rows = trace.requests.map((request) => {
    const [text, first, worst] = [node("td", { class: "sn-tl-text" }), node("td", {}), node("td", {})];
    cells.set(request.id, { text, first, worst });
    const label = node("th", { scope: "row" }, node("i", { class: `sn-dot ${requestHue(trace, request.id)}` }), `request ${request.id}`);
    return node("tr", {}, label, text, first, worst);
  });
  const head = ["Request", "Prompt and text so far", "TTFT", "Longest ITL so far"]
    .map((words) => node("th", { scope: "col" }, words));
  const table = node("table", { class: "sn-tl-table" }, node("thead", {}, node("tr", {}, ...head)), node("tbody", {}, ...rows));
  const update = (index) => {
    const texts = generatedAt(trace, index);
    const other = sides[1] ? generatedAt(sides[1].trace, index) : null;
    const gaps = sides.map((side) => gapsOf(side.trace, index));
    for (const request of trace.requests) {
      const mine = texts.get(request.id);
      const theirs = other?.get(request.id) ?? [];
      const differs = mine.some((token, at) => at < theirs.length && token !== theirs[at]);
      const { text, first, worst } = cells.get(request.id);
      const ofRequest = gaps.map((side) => side.find((gap) => gap.id === request.id) ?? { firstUs: null, worstUs: null });
      const lines = timeLines(sides, ofRequest, longest);
      first.replaceChildren(...lines.first);
      worst.replaceChildren(...lines.worst);
      text.replaceChildren(
        markedText(request.prompt_tokens, alphabet, "sn-tl-prompt"),
        markedText(mine, alphabet, "sn-tl-new"),
        differs ? node("span", { class: "sn-tl-differs" }, `${sides[1].name} wrote `, markedText(theirs, alphabet, "sn-tl-new")) : "",
      );
    }
  };
  return { table, update };
}
