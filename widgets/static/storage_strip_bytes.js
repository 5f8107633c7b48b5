// Draws held bytes above counted ones, and buffers as strips of cells with brackets for the views.

import { chartText, drawing, hatch, middleWithin } from "./chart.js";
import { node, svg } from "./dom.js";
import { cellsOf, lanesOf, mostLanes, rowsOf, stateOf, stripWords, viewLabels } from "./storage_strip_layout.js";
import { number } from "./words.js";

const CAPTION = 20;
const STRIP = 30;
const LANE = 34;
const ROW_GAP = 12;
const BAR_ROW = 22;
const BAR_LABEL = 66;
const BARS = 2 * BAR_ROW + 16;
const CHARACTER = 6.4;

function drawCells(step, row, cell, perByte, top, hues, pattern) {
  return cellsOf(step, row, cell).map((view, index) => {
    const width = Math.min(cell, row.nbytes - index * cell) * perByte;
    const inset = width > 6 ? 0.75 : 0;
    const place = { x: index * cell * perByte + inset, y: top, width: Math.max(0.5, width - 2 * inset), height: STRIP };
    return view ? svg("rect", { ...place, class: `sn-ss-seen sn-hue-${hues.get(view.label)}` })
      : svg("rect", { ...place, class: "sn-ss-unseen", fill: `url(#${pattern})` });
  });
}

// A bracket under its cells, and the view's name and place where there is room for them.
function drawBracket(view, perByte, top, width, hue) {
  const from = view.offset_bytes * perByte;
  const to = (view.offset_bytes + view.nbytes) * perByte;
  const y = top + view.lane * LANE;
  const long = `${view.label}: ${number(view.nbytes)} at ${number(view.offset_bytes)}`;
  const room = view.alone ? width : to - from;
  const within = (most) => [long, view.label].find((each) => each.length * CHARACTER <= most);
  const words = within(to - from) ?? within(room);
  return svg(
    "g", { class: `sn-hue-${hue}` },
    svg("path", { d: `M${from + 1} ${y}v6H${to - 1}v-6`, class: "sn-ss-bracket" }),
    words ? chartText(middleWithin((from + to) / 2, words.length * CHARACTER, 0, width), y + 20, "middle", words, "sn-ss-name") : null,
  );
}

function drawRow(steps, index, row, cell, perByte, top, width, hues, pattern) {
  const step = steps[index];
  const state = stateOf(steps, row, index);
  if (state === "later") return [];
  const caption = chartText(0, top + 13, "start", `${row.label}: ${number(row.nbytes)} bytes${state === "freed" ? ", freed" : ""}`, "sn-ss-caption");
  if (state === "freed") {
    const place = { x: 0.75, y: top + CAPTION, width: row.nbytes * perByte - 1.5, height: STRIP, rx: 3 };
    return [caption, svg("rect", { ...place, class: "sn-ss-freed" })];
  }
  const views = lanesOf(step, row.label);
  const brackets = views.map((view) => {
    const alone = views.filter((each) => each.lane === view.lane).length === 1;
    return drawBracket({ ...view, alone }, perByte, top + CAPTION + STRIP + 4, width, hues.get(view.label));
  });
  return [caption, ...drawCells(step, row, cell, perByte, top + CAPTION, hues, pattern), ...brackets];
}

function drawBars(step, most, width) {
  const room = width - BAR_LABEL;
  const wrong = step.live_bytes !== step.counted_bytes;
  return [["held", step.live_bytes], ["counted", step.counted_bytes]].flatMap(([name, bytes], at) => {
    const y = at * BAR_ROW;
    const length = (bytes / most) * room;
    const words = number(bytes);
    const inside = length > words.length * 7.4 + 12;
    return [
      chartText(0, y + 13, "start", name),
      svg("rect", { x: BAR_LABEL, y, width: Math.max(1, length), height: BAR_ROW - 5, rx: 3, class: `sn-ss-${name}${wrong && at === 0 ? " sn-ss-wrong" : ""}` }),
      chartText(BAR_LABEL + (inside ? length - 6 : length + 6), y + 13, inside ? "end" : "start", words, inside ? "sn-ss-inside" : "sn-ss-amount"),
    ];
  });
}

// The picture, drawn anew at every step: every storage keeps its row and every view its colour.
export function createBytesPicture(steps, cell, pattern) {
  const rows = rowsOf(steps);
  const hues = new Map(viewLabels(steps).map((label, index) => [label, index % 8]));
  const most = Math.max(1, ...steps.flatMap((step) => [step.live_bytes, step.counted_bytes]));
  const widest = Math.max(1, ...rows.map((row) => row.nbytes));
  const heights = rows.map((row) => CAPTION + STRIP + 4 + mostLanes(steps, row.label) * LANE - 8 + ROW_GAP);
  const stage = node("div", { class: "sn-ss-stage" });

  function draw(width, index) {
    const perByte = width / widest;
    const height = BARS + heights.reduce((sum, each) => sum + each, 0);
    const label = rows.map((row) => stripWords(steps, row, index)).join("; ");
    const topOf = (at) => BARS + heights.slice(0, at).reduce((sum, each) => sum + each, 0);
    stage.replaceChildren(drawing(
      width, height, label || "No storage", {},
      svg("defs", {}, hatch(pattern, "sn-ss-hatch", 2.2)), ...drawBars(steps[index], most, width),
      ...rows.flatMap((row, at) => drawRow(steps, index, row, cell, perByte, topOf(at), width, hues, pattern)),
    ));
  }

  return { stage, draw };
}
