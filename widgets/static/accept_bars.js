// p beside q for every token, a draft to choose, and two sliders for the numbers that decide.

import { fateWords, lawOf, middle, missing, ruleWords, short, staying, stretches } from "./accept_bars_layout.js";
import { chartText, drawing, hatch, legendOf, middleWithin, styledKey } from "./chart.js";
import { askAbove, freshId, mount, node, svg, titleRow } from "./dom.js";
import { choiceButtons } from "./player.js";
import { createSlider } from "./slider.js";

const TALL = 150;
const TOP = 26;
const NAME = 40;
const BAR_GAP = 4;
const STRIP = 26;
const STRIP_ROOM = 62;
const CHARACTER = 7;

// The three bars of a token: wanted, proposed, and what comes out.
function drawToken(view, token, x, width, most, patterns) {
  const { tokens, p, q, law, draft } = view;
  const base = TOP + TALL;
  const bar = (width - 2 * BAR_GAP) / 3;
  const tall = (share) => (share / most) * TALL;
  const both = Math.min(p[token], q[token]);
  const left = (at) => x + at * (bar + BAR_GAP);
  const piece = (at, from, to, className, pattern = null) => svg("rect", {
    x: left(at), width: bar, y: base - tall(to), height: tall(to - from), class: className, fill: pattern && `url(#${pattern})`,
  });
  return svg(
    "g", { class: `sn-hue-${token % 8}${token === draft ? " sn-ab-chosen" : ""}` },
    piece(0, 0, both, "sn-ab-both"),
    piece(0, both, p[token], "sn-ab-missing", patterns.missing),
    piece(1, 0, both, "sn-ab-both"),
    piece(1, both, q[token], "sn-ab-excess", patterns.excess),
    piece(2, 0, law[token], "sn-ab-law"),
    ...[["p", p], ["q", q], ["out", law]].flatMap(([name, shares], at) => [
      chartText(left(at) + bar / 2, base - tall(shares[token]) - 5, "middle", short(shares[token]), "sn-ab-share"),
      chartText(left(at) + bar / 2, base + 15, "middle", name),
    ]),
    chartText(x + width / 2, base + 34, "middle", tokens[token], token === draft ? "sn-ab-name sn-ab-here" : "sn-ab-name"),
  );
}

function drawBars(view, width) {
  const { tokens, p, q, law } = view;
  const patterns = { missing: freshId("missing"), excess: freshId("excess") };
  const words = tokens.map((token, at) => `${token}: p ${short(p[at])}, q ${short(q[at])}, comes out ${short(law[at])}`).join("; ");
  const most = Math.max(...p, ...q, ...law);
  const column = Math.min(190, width / tokens.length);
  const wide = Math.min(150, column - 12);
  return drawing(
    width, TOP + TALL + NAME, words, {},
    svg("defs", {}, hatch(patterns.missing, "sn-ab-stripe-missing"), hatch(patterns.excess, "sn-ab-stripe-excess")),
    svg("path", { d: `M0 ${TOP + TALL + 0.5}H${width}`, class: "sn-line" }),
    ...tokens.map((_, token) => drawToken(view, token, token * column + (column - wide) / 2, wide, most, patterns)),
  );
}

// 0 to 1 as a strip with what each part means, and a pointer at the number drawn.
function drawStrip(name, parts, at, idle, width, top) {
  return svg(
    "g", { class: idle ? "sn-ab-idle" : "", transform: `translate(0 ${top})` },
    ...parts.flatMap(({ from, to, words, className }) => {
      const [x, wide] = [from * width, (to - from) * width];
      return [
        svg("rect", { x: x + 0.5, y: 22, width: Math.max(0, wide - 1), height: STRIP, rx: 4, class: className }),
        words.length * CHARACTER < wide ? chartText(x + wide / 2, 22 + 17, "middle", words, "sn-ab-words") : null,
      ];
    }),
    svg("path", { d: `M${at * width} 18v${STRIP + 8}`, class: "sn-ab-at" }),
    chartText(middleWithin(at * width, 56, 0, width), 13, "middle", `${name} = ${short(at)}`, "sn-ab-name"),
  );
}

function drawStrips({ tokens, p, q, draft, u, v, outcome: [kept] }, width) {
  const stays = staying(p, q, draft);
  const ofU = [
    { from: 0, to: stays, words: `${tokens[draft]} stays`, className: "sn-ab-stays" },
    { from: stays, to: 1, words: `${tokens[draft]} goes`, className: "sn-ab-goes" },
  ].filter(({ from, to }) => to > from);
  const ofV = stretches(missing(p, q)).map(({ from, to, token }) => ({
    from, to, words: tokens[token], className: `sn-ab-drawn sn-hue-${token % 8}`,
  }));
  const label = `u is ${short(u)}, of which ${short(stays)} keep the draft. v is ${short(v)}${kept ? ", and is not needed" : ""}.`;
  return drawing(width, 2 * STRIP_ROOM, label, {}, drawStrip("u", ofU, u, false, width, 0), drawStrip("v", ofV, v, kept, width, STRIP_ROOM));
}

function legend() {
  return legendOf(
    "p: the target wants it, q: the draft proposes it, out: it stands there in the end",
    styledKey("sn-ab-key", "p and q agree: such drafts stay"),
    styledKey("sn-ab-key sn-ab-key-excess", "proposed too often: goes"),
    styledKey("sn-ab-key sn-ab-key-missing", "missing: drawn where a draft went"),
  );
}

function build(root, model) {
  const [p, q, outcomes, tokens, name] = ["p", "q", "outcomes", "tokens", "name"].map((each) => model.get(each));
  const parts = outcomes[0].length;
  const law = lawOf(q, outcomes);
  // The draft that most often has to go shows the most.
  let draft = q.indexOf(Math.max(...q));
  const at = { u: Math.floor(parts / 2), v: Math.floor(parts / 2) };
  const [bars, strips] = [node("div", {}), node("div", { class: "sn-ab-strips" })];
  const said = node("p", { class: "sn-live sn-ab-said", "aria-live": "polite" });
  let width = 0;
  const draw = () => {
    const [u, v] = [middle(at.u, parts), middle(at.v, parts)];
    const outcome = outcomes[draft][at.u][at.v];
    const view = { tokens, p, q, law, draft, u, v, outcome, name };
    const wrong = ruleWords(view, draft, u, v, outcome);
    said.replaceChildren(fateWords(view, draft, u, v, outcome), wrong ? node("strong", { class: "sn-ab-wrong" }, ` ${wrong}`) : "");
    if (!width) return;
    bars.replaceChildren(drawBars(view, width));
    strips.replaceChildren(drawStrips(view, width));
  };
  const { buttons } = choiceButtons(tokens.map((token) => `draft ${token}`), draft, (index) => {
    draft = index;
    draw();
  });
  const sliders = ["u", "v"].map((number) => createSlider({
    label: number, max: parts - 1, value: at[number], words: (index) => short(middle(index, parts)),
    onInput: (index) => {
      at[number] = index;
      draw();
    },
  }));
  root.append(
    titleRow(model),
    node("div", { class: "sn-toolbar" }, node("span", { class: "sn-group" }, ...buttons),
      ...sliders.map(({ input }) => node("span", { class: "sn-group" }, input))),
    said, strips, bars, legend(),
  );
  sliders.forEach(({ frame }) => frame());
  askAbove(root, model);
  draw();
  return {
    resize: () => {
      width = bars.clientWidth;
      draw();
    },
  };
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "accept-bars", label: "Whether a draft stays", inputs: ["p", "q", "outcomes", "tokens", "title", "name"],
    build: (root) => build(root, model),
  }),
};
