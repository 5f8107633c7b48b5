// The table below the timeline: texts so far, time to the first token, worst gap between tokens.

import { requestHue } from "./column_picture.js";
import { node, svg } from "./dom.js";
import { generatedAt } from "./timeline_layout.js";
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

function gapCell(sides, id, longest) {
  const lines = sides.map(({ gaps, name }, index) => {
    const { worstUs } = gaps.find((gap) => gap.id === id) ?? { worstUs: null };
    const words = worstUs === null ? "none" : duration(worstUs);
    const who = name ? node("span", { class: "sn-tl-who" }, name) : null;
    const className = index > 0 ? "sn-tl-gap-other" : "sn-tl-gap-bar";
    return node("span", { class: "sn-tl-gapline" }, who, gapBar(worstUs, longest, className), node("span", {}, words));
  });
  return node("td", {}, ...lines);
}

function firstCell(sides, id) {
  return node("td", {}, ...sides.map(({ gaps, name }) => {
    const { firstUs } = gaps.find((gap) => gap.id === id) ?? { firstUs: null };
    const who = name ? node("span", { class: "sn-tl-who" }, name) : null;
    return node("span", { class: "sn-tl-gapline" }, who, firstUs === null ? "none" : duration(firstUs));
  }));
}

// The table of texts so far, first token and worst gap; returns its element and its update.
export function textTable(sides, alphabet) {
  const { trace } = sides[0];
  const longest = Math.max(1, ...sides.flatMap(({ gaps }) => gaps.map((gap) => gap.worstUs ?? 0)));
  const cells = new Map();
  const rows = trace.requests.map((request) => {
    const text = node("td", { class: "sn-tl-text" });
    cells.set(request.id, text);
    const label = node("th", { scope: "row" }, node("i", { class: `sn-tl-dot ${requestHue(trace, request.id)}` }), `request ${request.id}`);
    return node("tr", {}, label, text, firstCell(sides, request.id), gapCell(sides, request.id, longest));
  });
  const head = ["Request", "Prompt and text so far", "First token after", "Worst gap between tokens"]
    .map((words) => node("th", { scope: "col" }, words));
  const table = node("table", { class: "sn-tl-table" }, node("thead", {}, node("tr", {}, ...head)), node("tbody", {}, ...rows));
  const update = (index) => {
    const texts = generatedAt(trace, index);
    const other = sides[1] ? generatedAt(sides[1].trace, index) : null;
    for (const request of trace.requests) {
      const mine = texts.get(request.id);
      const theirs = other?.get(request.id) ?? [];
      const differs = mine.some((token, at) => at < theirs.length && token !== theirs[at]);
      cells.get(request.id).replaceChildren(
        markedText(request.prompt_tokens, alphabet, "sn-tl-prompt"),
        markedText(mine, alphabet, "sn-tl-new"),
        differs ? node("span", { class: "sn-tl-differs" }, `${sides[1].name} wrote `, markedText(theirs, alphabet, "sn-tl-new")) : "",
      );
    }
  };
  return { table, update };
}
