// Replays one preemption: the cycle as a list, and the lanes of threads and ranks over time.

import { createAhead } from "./ahead.js";
import { chartText, hatch } from "./chart.js";
import { freshId, node, pointIn, svg } from "./dom.js";
import { toggleButton } from "./player.js";
import { cut, cyclePlaces, dotsOf, eventAt, eventWords, timeRange, timeTicks } from "./slo_cycle_layout.js";
import { steppedPicture } from "./stepped.js";
import { number } from "./words.js";

const BAND = 24;
const CHARACTER = 6.2;

function drawLanes(lanes, range, places) {
  const group = svg("g", {});
  for (const ms of timeTicks(range, places.narrow ? 4 : 8)) {
    const x = places.x(ms * 1000);
    const words = number(ms);
    group.append(
      svg("path", { d: `M${x} ${places.top}V${places.base}`, class: "sn-cy-grid" }),
      chartText(places.middle(x, words), places.base + 15, "middle", words),
    );
  }
  group.append(chartText(places.right, places.base + 32, "end", "ms from the beginning of the pass"));
  lanes.forEach((_, at) => {
    const y = places.y(at);
    group.append(svg("path", { d: `M${places.left} ${y}H${places.right}`, class: "sn-cy-track" }));
  });
  return group;
}

function drawNames(lanes, places) {
  return lanes.map((lane, at) => chartText(0, places.y(at) + (places.narrow ? -BAND / 2 - 8 : 4), "start", lane, "sn-cy-name"));
}

function drawSpans(spans, range, places, stripes) {
  const group = svg("g", {});
  for (const span of spans) {
    const box = cut(span, range, places);
    if (!box) continue;
    const y = places.y(span.lane) - BAND / 2;
    group.append(svg("rect", { ...box, y, height: BAND, rx: 4, class: `sn-cy-${span.kind}`, fill: span.kind === "waits" ? `url(#${stripes})` : null }));
    if (span.words.length * CHARACTER + 64 < box.width) group.append(chartText(box.x + box.width / 2, y + 16, "middle", span.words, "sn-cy-words"));
  }
  return group;
}

// A tick for every look of a rank at the target, higher where it votes to leave.
function drawMarks(marks, range, places) {
  const group = svg("g", {});
  for (const mark of marks.filter(({ at_us: at }) => at >= range.from && at <= range.to)) {
    const base = places.y(mark.lane) + BAND / 2;
    const high = mark.vote ? BAND : 7;
    group.append(svg("path", { d: `M${places.x(mark.at_us)} ${base}v${-high}`, class: mark.vote ? "sn-cy-one" : "sn-cy-zero" }));
  }
  return group;
}

// What an event does in another lane: a line from its dot, with a head.
function drawReach(event, points, places) {
  const group = svg("g", {});
  if (event.reach === null || !points.length) return group;
  const from = event.reach > points[0].lane ? points[0] : points[points.length - 1];
  const down = event.reach > from.lane;
  const start = places.y(from.lane) + (down ? 10 : -10);
  const end = places.y(event.reach) + (down ? -4 : 14);
  const head = down ? "l-4.5 -7h9Z" : "l-4.5 7h9Z";
  group.append(svg("path", { d: `M${from.x} ${start}V${end}`, class: "sn-cy-reach" }), svg("path", { d: `M${from.x} ${end}${head}`, class: "sn-cy-head" }));
  return group;
}

// The exact times of all events so far, below their dots, which may stand beside them.
function drawTimes(dots, step, places) {
  const points = dots.slice(0, step + 1).flat();
  return points.map(({ exact, lane }) => svg("path", { d: `M${exact} ${places.y(lane) - BAND / 2 - 3}v${BAND + 6}`, class: "sn-cy-exact" }));
}

function drawDots(index, points, step, places) {
  const state = index === step ? "sn-cy-now" : "sn-cy-past";
  return svg("g", { class: `sn-cy-dot ${state}` }, ...points.flatMap(({ x, lane }) => [
    svg("circle", { cx: x, cy: places.y(lane), r: 9.5 }),
    chartText(x, places.y(lane) + 4.3, "middle", String(index + 1), "sn-cy-number"),
  ]));
}

function drawCycle(cycle, step, zoomed, width, press) {
  const { lanes, spans, marks, events } = cycle;
  const range = timeRange(cycle, zoomed);
  const places = cyclePlaces(lanes, range, width);
  const dots = dotsOf(events, range, places);
  const stripes = freshId("waits");
  const picture = svg("svg", { width, height: places.height, role: "img", "aria-label": eventWords(events, step), class: "sn-cy-picture" });
  const shownTo = places.x(Math.min(events[step].at_us, range.to));
  const inLanes = drawSpans(spans, range, places, stripes);
  const ahead = createAhead(inLanes, { y: places.top, height: places.base - places.top });
  ahead.move(shownTo, places.right - shownTo);
  picture.append(
    svg("defs", {}, hatch(stripes, "sn-cy-stripe", 1.6)),
    drawLanes(lanes, range, places), inLanes, drawMarks(marks, range, places), ahead.element,
    svg("path", { d: `M${shownTo} ${places.top}V${places.base}`, class: "sn-cy-cursor" }),
    ...drawNames(lanes, places),
    ...drawTimes(dots, step, places),
    drawReach(events[step], dots[step], places),
    ...dots.slice(0, step + 1).map((points, index) => drawDots(index, points, step, places)),
  );
  // Where it went down counts: the press takes the toolbar's help away, and the picture moves up.
  let pressed = null;
  picture.addEventListener("pointerdown", (event) => {
    pressed = eventAt(dots.slice(0, step + 1), places, ...pointIn(picture, event));
  });
  picture.addEventListener("click", () => {
    if (pressed !== null) press(pressed);
  });
  return picture;
}

function drawStages(events, step) {
  return events.map((event, index) => node(
    "li", { class: index === step ? "sn-cy-stage sn-cy-here" : index < step ? "sn-cy-stage sn-cy-gone" : "sn-cy-stage", "aria-current": index === step ? "step" : null },
    node("span", { class: "sn-cy-digit" }, String(index + 1)), event.stage,
  ));
}

function legend(spans) {
  const swatch = (shape, words) => node("li", {}, svg("svg", { width: 22, height: 14, "aria-hidden": "true" }, shape), words);
  const box = (className) => svg("rect", { x: 1, y: 1, width: 20, height: 12, rx: 3, class: className });
  return node(
    "ul", { class: "sn-legend" },
    swatch(box("sn-cy-pass"), "the pass that is left"),
    spans.some((span) => span.kind === "candidate") ? swatch(box("sn-cy-candidate"), "the candidate's pass") : null,
    swatch(box("sn-cy-waits sn-cy-waits-key"), "waits for replies"),
    swatch(svg("path", { d: "M11 13v-7", class: "sn-cy-zero" }), "a rank's look, vote 0"),
    swatch(svg("path", { d: "M11 13V1", class: "sn-cy-one" }), "vote 1"),
  );
}

function build(model, moves) {
  const cycle = Object.fromEntries(["lanes", "spans", "marks", "events"].map((name) => [name, model.get(name)]));
  const { events } = cycle;
  const stages = node("ol", { class: "sn-cy-stages", "aria-label": "The cycle" });
  const stage = node("div", {});
  const source = model.get("source");
  let zoomed = true;
  const zoom = toggleButton("Whole pass", (pressed) => {
    zoomed = !pressed;
    moves.redraw();
  });
  return {
    count: events.length, label: "Events of the cycle", extras: [zoom], delay: () => 1800,
    name: (step) => `event ${step + 1} of ${events.length}`,
    draw: (step, width) => {
      stages.replaceChildren(...drawStages(events, step));
      stage.replaceChildren(drawCycle(cycle, step, zoomed, width, moves.go));
    },
    says: (step) => eventWords(events, step),
    facts: [source ? node("span", { class: "sn-chip sn-chip-strong" }, source) : ""],
    above: [stages],
    below: [stage, legend(cycle.spans)],
  };
}

export default steppedPicture({
  name: "slo-cycle", label: "The SLO cycle", build,
  inputs: ["lanes", "spans", "marks", "events", "source"],
});
