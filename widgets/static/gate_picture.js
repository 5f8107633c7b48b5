// Steps through decisions of a gate: the case of the four, and the scores on one axis.

import { chartText, drawing, middleWithin } from "./chart.js";
import { node, svg } from "./dom.js";
import { decisionWords, fourCases, isCase, incumbentOf, roleWords, rowsOf, scoreRange, scoreTicks } from "./gate_picture_layout.js";
import { laneName, laneScale } from "./lanes.js";
import { fateWords, scoreWords, signedDuration } from "./signed_words.js";
import { steppedPicture } from "./stepped.js";

const TOP = 46;
const EDGE = 12;
const NAMES = 190;
const WIDE = 620;
const CHARACTER = 6.6;
const BOLD = 7.5;
const BESIDE = 18;
const HALO = 3;

function header(words, scope) {
  return node("th", { scope }, words);
}

// The four cases as a table: columns by the incumbent's slack, rows by the candidate's.
function drawCases(decision) {
  const body = fourCases(decision.margin).map((row) => node("tr", {},
    header(`candidate ${row[0].candidate === "doomed" ? "is doomed" : row[0].candidate}`, "row"),
    ...row.map((cell) => {
      const here = isCase(cell, decision);
      return node("td", { class: `sn-gp-${cell.verdict}${here ? " sn-gp-here" : ""}`, "aria-current": here ? "true" : null },
        here ? node("strong", {}, "this case: ") : null, cell.words);
    })));
  return node("table", { class: "sn-gp-cases" },
    node("thead", {}, node("tr", {}, node("td", {}), header("incumbent can make it", "col"), header("incumbent is doomed", "col"))),
    node("tbody", {}, ...body));
}

function drawAxis(range, { x, left, right }, base, width) {
  const zero = x(0);
  return svg(
    "g", {},
    svg("rect", { x: left, y: TOP - 16, width: zero - left, height: base - TOP + 16, class: "sn-gp-doomed" }),
    svg("path", { d: `M${zero} ${TOP - 16}V${base}`, class: "sn-gp-zero" }),
    svg("path", { d: `M${left} ${base}H${right}`, class: "sn-line" }),
    ...scoreTicks(range, width < WIDE ? 3 : 5).flatMap((score) => [
      svg("path", { d: `M${x(score)} ${base}v5`, class: "sn-line" }), chartText(x(score), base + 19, "middle", scoreWords(score)),
    ]),
    chartText(zero - 6, TOP - 22, "end", zero - left > 60 ? "doomed" : ""),
    chartText(zero + 6, TOP - 22, "start", right - zero > 80 ? "can make it" : ""),
    chartText(right, base + 36, "end", "score per ms"),
  );
}

// From the incumbent's score to the margin's: a band, and a line that the candidate has to pass.
function drawMargin(decision, { x, left, right }, base) {
  const incumbent = incumbentOf(decision);
  if (!incumbent) return svg("g", {});
  const [from, to] = [x(incumbent.edf_score), x(decision.bar)];
  const inverted = decision.bar < incumbent.edf_score;
  const bar = `${decision.margin} × incumbent`;
  const said = inverted ? `${bar}: lower, not higher` : bar;
  const words = said.length * BOLD <= right - left ? said : bar;
  return svg(
    "g", {},
    svg("rect", { x: Math.min(from, to), y: TOP - 16, width: Math.abs(to - from), height: base - TOP + 16, class: inverted ? "sn-gp-inverted" : "sn-gp-band" }),
    svg("path", { d: `M${to} ${TOP - 16}V${base}`, class: inverted ? "sn-gp-bar sn-gp-bar-inverted" : "sn-gp-bar" }),
    chartText(middleWithin(to, words.length * BOLD, left, right), 12, "middle", words, "sn-name"),
  );
}

function drawDot(row, x, y) {
  const role = row.roles.includes("victim") ? " sn-gp-victim" : "";
  if (row.kind === "candidate") return svg("path", { d: `M${x} ${y - 9}l9 9l-9 9l-9 -9Z`, class: "sn-gp-candidate" });
  const dot = svg("circle", { cx: x, cy: y, r: 7.5, class: `sn-gp-${row.kind}${role}` });
  if (!row.roles.includes("incumbent")) return dot;
  return svg("g", {}, dot, svg("circle", { cx: x, cy: y, r: 12, class: "sn-gp-ring" }));
}

// Where a row's roles are said: beside its dot, clear of the line at `bar` if one side is, or below
// the dot where neither side has room.
function rolePlace(row, { x, left, right }, bar) {
  const at = x(row.edf_score);
  const needed = roleWords(row).length * CHARACTER + 2;
  const sides = [
    { side: "right", from: at + BESIDE, to: at + BESIDE + needed },
    { side: "left", from: at - BESIDE - needed, to: at - BESIDE },
  ].filter(({ from, to }) => from >= left - EDGE && to <= right);
  const clear = sides.find(({ from, to }) => bar === null || bar < from - HALO || bar > to + HALO);
  return (clear ?? sides[0])?.side ?? "below";
}

function drawRole(row, scale, y, bar) {
  const at = scale.x(row.edf_score);
  const place = rolePlace(row, scale, bar);
  if (place === "below") return chartText(scale.right, y + 27, "end", roleWords(row), "sn-gp-role");
  const [from, anchor] = place === "left" ? [at - BESIDE, "end"] : [at + BESIDE, "start"];
  return chartText(from, y + 4, anchor, roleWords(row), "sn-gp-role");
}

function drawRow(row, scale, y, wide, bar) {
  const [namedAt, from] = wide ? [y + 4, 76] : [y - 16, 72];
  return svg("g", {},
    svg("path", { d: `M${scale.left} ${y}H${scale.right}`, class: "sn-grid" }),
    laneName(namedAt, `request ${row.id}`), chartText(from, namedAt, "start", `slack ${signedDuration(row.slack_us)}`),
    drawDot(row, scale.x(row.edf_score), y), drawRole(row, scale, y, bar));
}

function drawScores(decision, width) {
  const rows = rowsOf(decision);
  const wide = width >= WIDE;
  const range = scoreRange(decision);
  const scale = laneScale({ from: range.low, to: range.high }, wide ? NAMES : EDGE, width - EDGE);
  const bar = decision.bar === null ? null : scale.x(decision.bar);
  const below = rows.some((row) => rolePlace(row, scale, bar) === "below") ? 18 : 0;
  const step = (wide ? 34 : 46) + below;
  const yOf = (at) => TOP + (wide ? 6 : 18) + at * step;
  const base = yOf(rows.length - 1) + 22 + below;
  const label = rows.map((row) => `request ${row.id}, ${fateWords(row.slack_us)}: ${roleWords(row)}`).join("; ");
  return drawing(
    width, base + 42, `Scores per ms. ${label}`, {},
    drawAxis(range, scale, base, width), drawMargin(decision, scale, base), ...rows.map((row, at) => drawRow(row, scale, yOf(at), wide, bar)),
  );
}

function build({ decisions }) {
  const cases = node("div", {});
  const scores = node("div", { class: "sn-gp-scores" });
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  return {
    count: decisions.length, label: "Decisions of the gate",
    name: (step) => `decision ${step + 1} of ${decisions.length}`,
    delay: () => 2200, lines: 3,
    draw: (step, width) => {
      const decision = decisions[step];
      chip.textContent = `margin ${decision.margin}`;
      cases.replaceChildren(drawCases(decision));
      scores.replaceChildren(drawScores(decision, width));
    },
    says: (step) => decisionWords(decisions[step]),
    facts: [chip],
    below: [cases, scores],
  };
}

export default steppedPicture({ name: "gate-picture", label: "The gate's four cases", inputs: ["decisions"], build });
