// Curves on labelled axes, each named where it ends; sliders choose which of them are shown.

import { chartText } from "./chart.js";
import { freshId, mount, node, svg, titleRow } from "./dom.js";
import {
  apart, axesOf, axisWords, curveNames, endWords, figure, placeOn, shownSeries, tableRows,
} from "./curves_layout.js";
import { askAbove } from "./question.js";
import { createSlider } from "./slider.js";

const HEIGHT = 280;
const TOP = 26;
const FOOT = 44;
const LEFT = 54;
const LABEL_GAP = 17;
const CHARACTER = 8.4;
const NARROW = 560;
const DASHES = ["", "7 4", "2 4", "11 4 2 4"];
const MOST_DOTS = 24;

// A mark of a series' own shape: told apart without its colour.
function mark(index, x, y, className) {
  const r = 4;
  const shapes = [
    () => svg("circle", { cx: x, cy: y, r }),
    () => svg("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
    () => svg("path", { d: `M${x} ${y - 5.4}l5.4 5.4l-5.4 5.4l-5.4 -5.4Z` }),
    () => svg("path", { d: `M${x} ${y - 5}l5 9h-10Z` }),
  ];
  const shape = shapes[index % shapes.length]();
  shape.setAttribute("class", className);
  return shape;
}

function drawAxes(axes, place, x, y, frame) {
  const group = svg("g", {});
  for (const value of axes.y) {
    const at = place.y(value);
    group.append(svg("path", { d: `M${LEFT} ${at}H${frame.right}`, class: value === 0 ? "sn-cu-zero" : "sn-cu-grid" }));
    group.append(chartText(LEFT - 8, at + 4, "end", figure(value)));
  }
  let free = 0;
  for (const value of axes.x) {
    const [at, words] = [place.x(value), figure(value)];
    group.append(svg("path", { d: `M${at} ${frame.base}v5`, class: "sn-cu-axis" }));
    if (at - words.length * 3.5 < free) continue;
    group.append(chartText(at, frame.base + 18, "middle", words));
    free = at + words.length * 3.5 + 8;
  }
  group.append(svg("path", { d: `M${LEFT} ${frame.base}H${frame.right}`, class: "sn-cu-axis" }));
  group.append(chartText(0, 13, "start", axisWords(y)), chartText(frame.right, frame.base + 36, "end", axisWords(x)));
  return group;
}

function drawSeries({ points, style }, index, place) {
  const group = svg("g", { class: `sn-hue-${index % 8}` });
  const spots = points.map(([x, y]) => [place.x(x), place.y(y)]);
  if (style === "line") {
    const dash = DASHES[index % DASHES.length];
    group.append(svg("path", { d: `M${spots.map((spot) => spot.join(" ")).join("L")}`, class: "sn-cu-line", "stroke-dasharray": dash || null }));
    if (spots.length <= MOST_DOTS) group.append(...spots.map(([x, y]) => mark(index, x, y, "sn-cu-dot")));
  } else {
    group.append(...spots.map(([x, y]) => mark(index, x, y, "sn-cu-point")));
  }
  return group;
}

// The name of every series at its end, kept apart, with a line to an end that it had to leave.
function drawNames(shown, names, place, frame) {
  const ends = shown.map(({ points }) => points[points.length - 1]);
  const heights = apart(ends.map(([, y]) => place.y(y) + 4), LABEL_GAP, TOP + 4, frame.base);
  return svg("g", {}, ...shown.map(({ name }, at) => svg(
    "g", { class: `sn-hue-${names.indexOf(name) % 8}` },
    svg("path", { d: `M${place.x(ends[at][0]) + 6} ${place.y(ends[at][1])}L${frame.right + 8} ${heights[at] - 4}`, class: "sn-cu-lead" }),
    chartText(frame.right + 12, heights[at], "start", name, "sn-cu-name"),
  )));
}

function legend(shown, names) {
  return node("ul", { class: "sn-legend" }, ...shown.map(({ name, style }) => {
    const index = names.indexOf(name);
    const swatch = svg("svg", { width: 30, height: 14, "aria-hidden": "true", class: `sn-hue-${index % 8}` });
    if (style === "line") swatch.append(svg("path", { d: "M1 7H29", class: "sn-cu-line", "stroke-dasharray": DASHES[index % DASHES.length] || null }));
    swatch.append(mark(index, 15, 7, style === "line" ? "sn-cu-dot" : "sn-cu-point"));
    return node("li", {}, swatch, name);
  }));
}

function drawTable(shown, x, y) {
  const head = [axisWords(x), ...shown.map(({ name }) => (y[1] ? `${name}, ${y[1]}` : name))];
  return node(
    "table", { class: "sn-cu-table" },
    node("thead", {}, node("tr", {}, ...head.map((words) => node("th", { scope: "col" }, words)))),
    node("tbody", {}, ...tableRows(shown).map((row) => node(
      "tr", {}, node("th", { scope: "row" }, figure(row.x)), ...row.cells.map((cell) => node("td", {}, cell)),
    ))),
  );
}

function drawCurves(model, shown, width) {
  const [series, x, y, logX] = ["series", "x", "y", "log_x"].map((name) => model.get(name));
  const names = curveNames(series);
  const longest = Math.max(...names.map((name) => name.length)) * CHARACTER;
  const narrow = width < NARROW || longest > width / 3; // a legend names the series, not their ends
  const axes = axesOf(series, logX, { x: narrow ? 4 : 7, y: 5 });
  const lastNumber = figure(axes.x.at(-1)).length * 3.5 + 2; // half of it lies beyond its place
  const room = narrow ? Math.max(16, lastNumber) : 20 + longest;
  const frame = { right: width - room, base: HEIGHT - FOOT };
  const place = { x: placeOn(axes.x, LEFT, frame.right, logX), y: placeOn(axes.y, frame.base, TOP) };
  const label = `${axisWords(y)} over ${axisWords(x)}. ${endWords(shown, x, y)} The numbers are in the table below.`;
  const picture = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": label });
  picture.append(drawAxes(axes, place, x, y, frame), ...shown.map((each) => drawSeries(each, names.indexOf(each.name), place)));
  if (!narrow) picture.append(drawNames(shown, names, place, frame));
  return narrow ? [picture, legend(shown, names)] : [picture];
}

function build(root, model) {
  const [series, sliders, x, y, source] = ["series", "sliders", "x", "y", "source"].map((name) => model.get(name));
  const chosen = Object.fromEntries(sliders.map(({ name, values, shown }) => [name, values[shown]]));
  const said = node("p", { class: "sn-cu-said", id: freshId("said"), "aria-live": "polite" });
  const stage = node("div", {});
  const table = node("div", { class: "sn-scroll sn-cu-tablebox", tabindex: "0", role: "group", "aria-label": "The numbers" });
  let width = 0;
  const draw = () => {
    const shown = shownSeries(series, chosen);
    said.textContent = endWords(shown, x, y);
    table.replaceChildren(drawTable(shown, x, y));
    if (width) stage.replaceChildren(...drawCurves(model, shown, width));
  };
  const inputs = sliders.map(({ name, values, shown }) => createSlider({
    label: name, max: values.length - 1, value: shown, words: (at) => String(values[at]),
    onInput: (at) => {
      chosen[name] = values[at];
      draw();
    },
  }));
  root.append(
    titleRow(model, source ? node("span", { class: "sn-chip sn-chip-strong" }, source) : ""),
    node("div", { class: "sn-toolbar sn-cu-sliders" }, ...inputs.map(({ input }) => node("span", { class: "sn-group" }, input))),
    stage, said,
    node("details", { class: "sn-cu-numbers" }, node("summary", {}, "The numbers"), table),
  );
  inputs.forEach(({ frame }) => frame());
  askAbove(root, model);
  draw();
  return {
    resize: () => {
      width = stage.clientWidth;
      draw();
    },
  };
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "curves", label: "Curves", inputs: ["series", "x", "y", "title", "sliders", "source", "log_x"],
    build: (root) => build(root, model),
  }),
};
