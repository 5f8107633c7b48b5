// Steps down through the layers below one token's logits: the cone of what can act on it.

import { boxKey, chartText, drawing, legendOf } from "./chart.js";
import { makeReachable, node, pointIn, svg } from "./dom.js";
import { toggleButton } from "./player.js";
import { fieldSizes, fieldWords, probePlace, probeWords, reachOf, rowLabel, wayUp } from "./receptive_field_layout.js";
import { createSlider } from "./slider.js";
import { steppedPicture } from "./stepped.js";

const TOP = 20;
const BOX = 20;
const FOOT = 22;

function drawCells(field, reach, depth, sizes) {
  const inset = sizes.cell > 10 ? 1.5 : 0.5;
  return svg("g", {}, ...reach.flatMap((row, at) => {
    const y = TOP + at * sizes.row;
    const cells = row.map((acts, position) => {
      const state = acts && at <= depth ? `sn-rf-acts${at === depth ? " sn-rf-now" : ""}` : "sn-rf-idle";
      const x = sizes.label + position * sizes.cell + inset;
      return svg("rect", { x, y, width: sizes.cell - 2 * inset, height: BOX, rx: Math.min(4, sizes.cell / 4), class: state });
    });
    return [chartText(0, y + 14, "start", rowLabel(field, at), at === depth ? "sn-rf-here" : "sn-axis"), ...cells];
  }));
}

// Between two rows: from the reached part above to what it sees below, as one slanted band.
function drawCone(field, reach, depth, sizes) {
  const group = svg("g", {});
  const edge = (row) => [row.indexOf(true), row.lastIndexOf(true) + 1].map((at) => sizes.label + at * sizes.cell);
  for (let at = 0; at < depth; at += 1) {
    const [above, below] = [edge(reach[at]), edge(reach[at + 1])];
    const [y, next] = [TOP + at * sizes.row + BOX, TOP + (at + 1) * sizes.row];
    group.append(svg("path", { d: `M${above[0]} ${y}H${above[1]}L${below[1]} ${next}H${below[0]}Z`, class: "sn-rf-cone" }));
  }
  return group;
}

// The probe's way up: a line through the rows, ending at the logits when there are layers enough.
function drawWay(field, probe, sizes) {
  const centre = (position) => sizes.label + (position + 0.5) * sizes.cell;
  const bottom = TOP + field.num_layers * sizes.row;
  const way = wayUp(field, probe);
  const reaches = way.length - 1 <= field.num_layers;
  const className = reaches ? "sn-rf-way" : "sn-rf-way sn-rf-short";
  const points = [[centre(probe), bottom + BOX / 2]];
  // It waits in its own column until the last layers carry it, as a residual stream does.
  const spare = Math.max(0, field.num_layers - (way.length - 1));
  const path = [...Array(spare).fill(probe), ...way.slice(1)].slice(0, field.num_layers);
  path.forEach((position, at) => points.push([centre(position), bottom - (at + 1) * sizes.row + BOX / 2]));
  const dot = { r: Math.min(4.5, sizes.cell / 2), class: reaches ? "sn-rf-dot" : "sn-rf-dot sn-rf-short" };
  return svg(
    "g", {}, svg("path", { d: `M${points.map((point) => point.join(" ")).join("L")}`, class: className }),
    ...points.map(([x, y]) => svg("circle", { cx: x, cy: y, ...dot })),
  );
}

function drawPositions(field, probe, sizes) {
  const y = TOP + field.num_layers * sizes.row + BOX + 15;
  const every = Math.max(1, Math.ceil(24 / sizes.cell));
  const middle = (position) => sizes.label + (position + 0.5) * sizes.cell;
  const shown = [...Array(field.num_positions).keys()]
    .filter((position) => position % every === 0 && Math.abs(position - probe) * sizes.cell >= 22);
  return svg(
    "g", {},
    chartText(middle(probe), y, "middle", String(probe), "sn-rf-here"),
    ...shown.map((position) => chartText(middle(position), y, "middle", String(position))),
    chartText(middle(field.query), 12, "middle", String(field.query), "sn-rf-here"),
  );
}

function build({ probe: firstProbe, ...field }, moves) {
  const reach = reachOf(field);
  const scroller = node("div", { class: "sn-scroll" });
  let probe = firstProbe;
  let shown = false;
  const probeSaid = () => (shown ? probeWords(field, probe) : probePlace(field, probe));
  const draw = (depth, width) => {
    const sizes = fieldSizes(field, width);
    const height = TOP + field.num_layers * sizes.row + BOX + FOOT;
    const label = `${fieldWords(field, depth)} ${probeSaid()}`;
    const picture = drawing(
      sizes.width, height, label, { class: "sn-picture" },
      drawCone(field, reach, depth, sizes), drawCells(field, reach, depth, sizes), drawPositions(field, probe, sizes),
      shown ? drawWay(field, probe, sizes) : null,
    );
    picture.addEventListener("click", (event) => {
      const position = Math.floor((pointIn(picture, event)[0] - sizes.label) / sizes.cell);
      if (position >= 0 && position <= field.query) choose(position);
    });
    // Where it scrolls, it begins at the query, which is at the right.
    const kept = scroller.childElementCount ? scroller.scrollLeft : sizes.width;
    scroller.replaceChildren(picture);
    scroller.scrollLeft = kept;
    makeReachable(scroller, sizes.width > width + 1, "Receptive field, scrolls sideways");
  };
  const choose = (position) => {
    probe = position;
    slider.move(position);
    moves.again();
  };
  const slider = createSlider({ label: "token", max: field.query, value: probe, words: String, onInput: choose });
  const way = toggleButton("Show its way", (pressed) => {
    shown = pressed;
    moves.again();
  });
  return {
    count: field.num_layers + 1, label: "Layers downwards", lines: 4, extras: [slider.input, way], sliders: [slider],
    name: (step) => (step === 0 ? "the logits" : `${step} of ${field.num_layers} layers down`),
    delay: () => 1400,
    draw,
    says: (depth) => `${fieldWords(field, depth)}\n${probeSaid()}`,
    below: [
      scroller,
      legendOf(
        boxKey("sn-rf-acts", "can act on the logits"), boxKey("sn-rf-idle", "cannot, or is not reached yet"),
        "press a position to choose the token",
      ),
    ],
    opening: 1,
  };
}

export default steppedPicture({
  name: "receptive-field", label: "The receptive field under a window", build,
  inputs: ["window", "num_layers", "num_positions", "query", "probe"],
});
