// One metric of a comparison: each seed's pair as a line, and beside it the paired differences.

import { chartText } from "./chart.js";
import { svg } from "./dom.js";
import { PER_SEED, differenceScale, meanPair, nameDrop, panelPlaces, pairAt, scaleFor, shortNumber, sideOf, signedNumber } from "./paired_seeds_layout.js";

// The end of a pair: round where the pair is better, a hollow square where it is worse.
function endMark(x, y, side, className) {
  if (side !== "worse") return svg("circle", { cx: x, cy: y, r: 4, class: className });
  return svg("rect", { x: x - 3.8, y: y - 3.8, width: 7.6, height: 7.6, class: className });
}

function drawAxes(row, scale, differences, places, names) {
  const group = svg("g", {});
  for (const mark of scale.marks) {
    const y = places.y(scale.part(mark));
    group.append(svg("path", { d: `M${places.left} ${y}H${places.pairsEnd}`, class: "sn-ps-grid" }), chartText(places.left - 6, y + 4, "end", shortNumber(mark)));
  }
  for (const mark of differences.marks) {
    const y = places.y(differences.part(mark));
    group.append(
      svg("path", { d: `M${places.differences} ${y}H${places.right}`, class: mark === 0 ? "sn-ps-zero" : "sn-ps-grid" }),
      chartText(places.right + 5, y + 4, "start", signedNumber(mark), mark === 0 ? "sn-ps-name" : "sn-axis"),
    );
  }
  const unit = [row.unit, scale.log ? "log scale" : ""].filter(Boolean).join(", ");
  group.append(
    chartText(0, 12, "start", unit),
    chartText(places.width, 12, "end", "difference"),
    chartText(places.columns[0], places.base + 20, "middle", names[0], "sn-ps-name"),
    chartText(places.columns[1], places.base + 20 + nameDrop(names, places), "middle", names[1], "sn-ps-name"),
    chartText((places.differences + places.right) / 2, places.base + 20, "middle", PER_SEED),
  );
  return group;
}

function drawPair(row, pair, scale, places, className) {
  const side = sideOf(row, pair.other - pair.baseline);
  const [from, to] = [places.y(scale.part(pair.baseline)), places.y(scale.part(pair.other))];
  const group = svg("g", { class: `sn-ps-${side} ${className}` });
  group.append(
    svg("path", { d: `M${places.columns[0]} ${from}L${places.columns[1]} ${to}`, class: "sn-ps-line" }),
    svg("circle", { cx: places.columns[0], cy: from, r: 4, class: "sn-ps-mark" }),
    endMark(places.columns[1], to, side, "sn-ps-mark"),
  );
  return group;
}

// The values of the pair that the step is about, at both its ends.
function drawValues(pair, scale, places) {
  const [from, to] = [places.y(scale.part(pair.baseline)), places.y(scale.part(pair.other))];
  return svg("g", {},
    chartText(places.columns[0] - 8, from - 8, "start", shortNumber(pair.baseline), "sn-ps-value"),
    chartText(places.columns[1] + 10, to + 4.5, "start", shortNumber(pair.other), "sn-ps-value"));
}

function drawDifferences(row, differences, places, shown) {
  const group = svg("g", {});
  row.pairs.forEach((pair, index) => {
    const difference = pair.other - pair.baseline;
    const side = sideOf(row, difference);
    const [x, y] = [places.dot(index, row.pairs.length), places.y(differences.part(difference))];
    const dim = shown !== null && shown !== index ? " sn-ps-dim" : "";
    group.append(svg("g", { class: `sn-ps-${side}${dim}` }, endMark(x, y, side, "sn-ps-mark")));
  });
  const [x, y] = [places.mean, places.y(differences.part(row.mean))];
  if (row.low !== null) {
    const [low, high] = [places.y(differences.part(row.low)), places.y(differences.part(row.high))];
    group.append(svg("path", { d: `M${x} ${low}V${high}M${x - 5} ${low}h10M${x - 5} ${high}h10`, class: "sn-ps-whisker" }));
  }
  group.append(svg("path", { d: `M${x} ${y - 6}l6 6l-6 6l-6 -6Z`, class: "sn-ps-mean" }));
  return group;
}

// The panel of one row; `shown` is the seed that stands out, null for the mean of all. Returns the
// picture and `at(x, y)`, the seed whose pair lies there or null.
export function drawPanel(row, rows, names, shown, width, words) {
  const places = panelPlaces(width);
  const [scale, differences] = [scaleFor(row, rows), differenceScale(row)];
  const height = places.height + nameDrop(names, places);
  const picture = svg("svg", { width, height, role: "img", "aria-label": words, class: "sn-ps-picture" });
  const chosen = shown === null ? meanPair(row) : row.pairs[shown];
  picture.append(
    drawAxes(row, scale, differences, places, names),
    ...row.pairs.map((pair) => drawPair(row, pair, scale, places, "sn-ps-dim")),
    drawPair(row, chosen, scale, places, shown === null ? "sn-ps-all" : "sn-ps-shown"),
    drawDifferences(row, differences, places, shown),
    drawValues(chosen, scale, places),
  );
  return { picture, at: (x, y) => pairAt(row, scale, differences, places, x, y) };
}
