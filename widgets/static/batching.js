// Draws two ways to fill the same slots on one time axis.

import { createAhead } from "./ahead.js";
import { chartText, hatch, ticks } from "./chart.js";
import { freshId, node, svg } from "./dom.js";
import { laneScale } from "./lanes.js";
import { idleSpans, sideSummary, stepWords, wholeLength } from "./batching_layout.js";
import { steppedPicture } from "./stepped.js";
import { count } from "./words.js";

const LANE = 34;
const BAR = 28;
const LEFT = 50;
const AXIS = 24;
const COLOURS = 8;

// A bar in a slot's lane, a gap of a pixel at both of its ends.
function barOf(scale, slot, { start, end }) {
  const { x, width } = scale.cut(start, end);
  return { x: x + 1, width: width - 2, y: slot * LANE + (LANE - BAR) / 2, height: BAR, rx: 5 };
}

function drawLanes(side, scale, patternId) {
  const group = svg("g", {});
  for (let slot = 0; slot < side.slots; slot += 1) {
    group.append(chartText(0, (slot + 0.5) * LANE + 4, "start", `slot ${slot}`));
    for (const idle of idleSpans(side, slot)) {
      const box = barOf(scale, slot, idle);
      group.append(svg("rect", { ...box, fill: `url(#${patternId})` }), svg("rect", { ...box, class: "sn-ba-idle" }));
    }
  }
  for (const span of side.spans) {
    const box = barOf(scale, span.slot, span);
    group.append(svg("rect", { ...box, class: `sn-ba-span sn-hue-${span.request % COLOURS}` }));
    const words = box.width > 74 ? `request ${span.request}` : String(span.request);
    if (box.width > 12) group.append(chartText(box.x + box.width / 2, box.y + BAR / 2 + 4.5, "middle", words, "sn-ba-name"));
  }
  return group;
}

function drawSide(side, length, width, patternId) {
  const scale = laneScale({ from: 0, to: length }, LEFT, width - 2);
  const [lanesHeight, height] = [side.slots * LANE, side.slots * LANE + AXIS];
  const picture = svg("svg", { width, height, role: "img", "aria-label": `${side.name}: ${count(side.slots, "slot")} over time` });
  const lanes = drawLanes(side, scale, patternId);
  picture.append(svg("defs", {}, hatch(patternId, "sn-ba-hatch")), lanes);
  for (const step of ticks(length, Math.min(length, width / 70)).filter((each) => each <= length && Number.isInteger(each))) {
    picture.append(chartText(scale.x(step), height - 6, step === 0 ? "start" : step === length ? "end" : "middle", String(step)));
  }
  const end = scale.x(side.length);
  const ahead = createAhead(lanes, { y: 0, height: lanesHeight });
  const cursor = svg("rect", { y: 1, height: lanesHeight - 2, width: scale.x(1) - scale.x(0), rx: 5, class: "sn-cursor" });
  picture.append(svg("path", { d: `M${end} 0V${lanesHeight}`, class: "sn-ba-end" }), ahead.element, cursor);
  const point = (step) => {
    cursor.setAttribute("x", scale.x(step));
    cursor.setAttribute("visibility", step < side.length ? "visible" : "hidden");
    const next = scale.x(step + 1);
    ahead.move(Math.min(next, end), end - next);
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

function build({ sides }) {
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

export default steppedPicture({ name: "batching", label: "Static and continuous batching", inputs: ["sides"], build });
