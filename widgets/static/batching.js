// Draws two ways to fill the same slots on one time axis.

import { createAhead } from "./ahead.js";
import { chartText, hatch, ticks } from "./chart.js";
import { freshId, node, svg } from "./dom.js";
import { idleSpans, sideSummary, stepWords, wholeLength } from "./batching_layout.js";
import { steppedPicture } from "./stepped.js";
import { count } from "./words.js";

const LANE = 34;
const BAR = 28;
const LEFT = 50;
const AXIS = 24;
const COLOURS = 8;

function drawLanes(side, unit, patternId) {
  const group = svg("g", {});
  for (let slot = 0; slot < side.slots; slot += 1) {
    const y = slot * LANE + (LANE - BAR) / 2;
    group.append(chartText(0, y + BAR / 2 + 4, "start", `slot ${slot}`));
    for (const idle of idleSpans(side, slot)) {
      const box = { x: LEFT + idle.start * unit + 1, y, width: (idle.end - idle.start) * unit - 2, height: BAR, rx: 5 };
      group.append(svg("rect", { ...box, fill: `url(#${patternId})` }), svg("rect", { ...box, class: "sn-ba-idle" }));
    }
  }
  for (const span of side.spans) {
    const y = span.slot * LANE + (LANE - BAR) / 2;
    const width = (span.end - span.start) * unit - 2;
    const x = LEFT + span.start * unit + 1;
    const hue = `sn-hue-${span.request % COLOURS}`;
    group.append(svg("rect", { x, y, width, height: BAR, rx: 5, class: `sn-ba-span ${hue}` }));
    const words = width > 74 ? `request ${span.request}` : String(span.request);
    if (width > 12) group.append(chartText(x + width / 2, y + BAR / 2 + 4.5, "middle", words, "sn-ba-name"));
  }
  return group;
}

function drawSide(side, length, width, patternId) {
  const unit = (width - LEFT - 2) / length;
  const height = side.slots * LANE + AXIS;
  const picture = svg("svg", { width, height, role: "img", "aria-label": `${side.name}: ${count(side.slots, "slot")} over time` });
  picture.append(svg("defs", {}, hatch(patternId, "sn-ba-hatch")));
  const lanes = drawLanes(side, unit, patternId);
  picture.append(lanes);
  for (const step of ticks(length, Math.min(length, width / 70)).filter((each) => each <= length && Number.isInteger(each))) {
    picture.append(chartText(LEFT + step * unit, height - 6, step === 0 ? "start" : step === length ? "end" : "middle", String(step)));
  }
  const end = LEFT + side.length * unit;
  picture.append(svg("path", { d: `M${end} 0V${side.slots * LANE}`, class: "sn-ba-end" }));
  const ahead = createAhead(lanes, { y: 0, height: side.slots * LANE });
  const cursor = svg("rect", { y: 1, height: side.slots * LANE - 2, width: unit, rx: 5, class: "sn-ba-cursor" });
  picture.append(ahead.element, cursor);
  const point = (step) => {
    const x = LEFT + step * unit;
    cursor.setAttribute("x", x);
    cursor.setAttribute("visibility", step < side.length ? "visible" : "hidden");
    ahead.move(Math.min(x + unit, end), end - x - unit);
  };
  return { picture, point };
}

function createPanel(side) {
  const patternId = freshId("idle");
  const holder = node("div", {});
  const summary = node("span", {});
  const head = node("p", { class: "sn-ba-head" }, node("strong", {}, side.name), summary);
  const element = node("div", { class: "sn-ba-panel" }, head, holder);
  let drawn = null;
  const draw = (length, width) => {
    drawn = drawSide(side, length, width, patternId);
    holder.replaceChildren(drawn.picture);
  };
  const point = (step) => {
    summary.textContent = sideSummary(side, step);
    drawn.point(step);
  };
  return { element, draw, point };
}

function build(model) {
  const sides = model.get("sides");
  const length = wholeLength(sides);
  const panels = sides.map(createPanel);
  return {
    count: length, label: "Steps", name: (step) => `step ${step} of ${length - 1}`, delay: () => 600,
    layOut: (width) => panels.forEach((panel) => panel.draw(length, width)),
    draw: (step) => panels.forEach((panel) => panel.point(step)),
    says: (step) => stepWords(sides, step),
    below: panels.map((panel) => panel.element),
  };
}

export default steppedPicture({
  name: "batching", label: "Static and continuous batching", build,
  inputs: ["sides"],
});
