// Replays one preemption: the cycle as a list, and the lanes of threads and ranks over time.

import { createAhead } from "./ahead.js";
import { boxKey, chartText, drawing, hatch, legendKey, legendOf } from "./chart.js";
import { freshId, node, pointIn, svg } from "./dom.js";
import { drawMoment, drawTimeGrid, drawTrack, laneName } from "./lanes.js";
import { toggleButton } from "./player.js";
import { cyclePlaces, dotsOf, eventAt, eventWords, timeRange } from "./slo_cycle_layout.js";
import { steppedPicture } from "./stepped.js";
import { number } from "./words.js";

const BAND = 24;
const CHARACTER = 6.2;

function drawLanes(lanes, places) {
  const { top, base, narrow, width } = places;
  return svg(
    "g", {},
    drawTimeGrid(places, { top, base, end: width, wanted: narrow ? 4 : 8, words: number }),
    chartText(places.right, base + 32, "end", "ms from the beginning of the pass"),
    ...lanes.map((_, at) => drawTrack(places, places.y(at))),
  );
}

function drawSpans(spans, places, stripes) {
  return svg("g", {}, ...spans.flatMap(({ from_us: from, to_us: to, lane, kind, words }) => {
    const box = places.cut(from, to);
    if (!box) return [];
    const y = places.y(lane) - BAND / 2;
    const has = words.length * CHARACTER + 64 < box.width;
    return [
      svg("rect", { ...box, y, height: BAND, rx: 4, class: `sn-cy-${kind}`, fill: kind === "waits" ? `url(#${stripes})` : null }),
      has ? chartText(box.x + box.width / 2, y + 16, "middle", words, "sn-cy-words") : null,
    ];
  }));
}

// A tick for every look of a rank at the target, higher where it votes to leave.
function drawMarks(marks, places) {
  return svg("g", {}, ...marks.filter((mark) => places.shows(mark.at_us)).map(({ lane, at_us: at, vote }) =>
    svg("path", { d: `M${places.x(at)} ${places.y(lane) + BAND / 2}v${vote ? -BAND : -7}`, class: vote ? "sn-cy-one" : "sn-cy-zero" })));
}

// What an event does in another lane: a line from its dot, with a head.
function drawReach(event, points, places) {
  if (event.reach === null || !points.length) return null;
  const from = event.reach > points[0].lane ? points[0] : points[points.length - 1];
  const down = event.reach > from.lane;
  const start = places.y(from.lane) + (down ? 10 : -10);
  const end = places.y(event.reach) + (down ? -4 : 14);
  const head = down ? "l-4.5 -7h9Z" : "l-4.5 7h9Z";
  return svg("g", {}, svg("path", { d: `M${from.x} ${start}V${end}`, class: "sn-cy-reach" }), svg("path", { d: `M${from.x} ${end}${head}`, class: "sn-cy-head" }));
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
  const places = cyclePlaces(lanes, timeRange(cycle, zoomed), width);
  const dots = dotsOf(events, places);
  const stripes = freshId("waits");
  const shownTo = places.x(Math.min(events[step].at_us, places.to));
  const inLanes = drawSpans(spans, places, stripes);
  const ahead = createAhead(inLanes, { y: places.top, height: places.base - places.top });
  ahead.move(shownTo, places.right - shownTo);
  const picture = drawing(
    width, places.height, eventWords(events, step), { class: "sn-picture" },
    svg("defs", {}, hatch(stripes, "sn-cy-stripe", 1.6)),
    drawLanes(lanes, places), inLanes, drawMarks(marks, places), ahead.element, drawMoment(shownTo, places.top, places.base),
    ...lanes.map((lane, at) => laneName(places.y(at) + (places.narrow ? -BAND / 2 - 8 : 4), lane)),
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
  return legendOf(
    boxKey("sn-cy-pass", "the pass that is left", 22),
    spans.some((span) => span.kind === "candidate") ? boxKey("sn-cy-candidate", "the candidate's pass", 22) : null,
    boxKey("sn-cy-waits sn-cy-waits-key", "waits for replies", 22),
    legendKey("a rank's look, vote 0", 22, svg("path", { d: "M11 13v-7", class: "sn-cy-zero" })),
    legendKey("vote 1", 22, svg("path", { d: "M11 13V1", class: "sn-cy-one" })),
  );
}

function build({ source, ...cycle }, moves) {
  const { events } = cycle;
  const stages = node("ol", { class: "sn-cy-stages", "aria-label": "The cycle" });
  const stage = node("div", {});
  let zoomed = true;
  const zoom = toggleButton("Whole pass", (pressed) => {
    zoomed = !pressed;
    moves.redraw();
  });
  return {
    count: events.length, label: "Events of the cycle", lines: 3, extras: [zoom], delay: () => 1800,
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
