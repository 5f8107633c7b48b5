// Steps through verifying passes: the text with every token's origin, and the pass's decisions.

import { chartText, drawing, legendKey, legendOf } from "./chart.js";
import { factChips, keepFocus, node, pointIn, svg } from "./dom.js";
import {
  automatonWords, barPlaces, chance, draftState, followsRule, keepChance, lastWords, numKept, passWords, ruleWords, standing, statePlaces, statesOf,
  stripOpening, tokenMark, totals,
} from "./speculation_strip_layout.js";
import { steppedPicture } from "./stepped.js";

const STATE_WORDS = { kept: "✓ kept", rejected: "✗ rejected", unread: "not read" };
const LAST_WORDS = { bonus: "+ bonus", resampled: "↻ resampled", plain: "plain" };

function tokenSpan(text, className) {
  return node("span", { class: `sn-sp-token sn-sp-${className}` }, tokenMark(text));
}

// The spans of one pass: its drafts, those that do not stay in view only while it is shown.
function passSpans(pass) {
  const stays = (text) => (text.includes("\n") ? [node("br")] : []);
  return node("span", { class: "sn-sp-pass" },
    ...pass.drafts.flatMap((draft, at) => {
      const state = draftState(pass.drafts, at);
      return [tokenSpan(draft.text, state), ...(state === "kept" ? stays(draft.text) : [])];
    }),
    tokenSpan(pass.last.text, pass.last.kind), ...stays(pass.last.text));
}

function probability(value) {
  const bar = node("span", { class: "sn-sp-bar", "aria-hidden": "true" }, node("i", {}));
  bar.firstChild.style.width = `${100 * value}%`;
  return [chance(value), bar];
}

// u on the way from 0 to 1, the part below p / q keeps the draft.
function decision(draft, state) {
  const words = node("span", {}, ruleWords(draft, state));
  if (state === "unread") return [words];
  const track = node("span", { class: "sn-sp-track", "aria-hidden": "true" }, node("i", {}));
  track.firstChild.style.width = `${100 * keepChance(draft)}%`;
  if (draft.u !== null) {
    const mark = node("b", {});
    mark.style.left = `${100 * draft.u}%`;
    track.append(mark);
  }
  return [words, track];
}

function draftRow(drafts, at) {
  const draft = drafts[at];
  const state = draftState(drafts, at);
  const wrong = state !== "unread" && !followsRule(draft);
  return node(
    "tr", { class: `sn-sp-row-${state}` },
    node("th", { scope: "row" }, tokenSpan(draft.text, state)),
    node("td", {}, ...probability(draft.p)), node("td", {}, ...probability(draft.q)),
    node("td", {}, ...decision(draft, state)),
    node("td", { class: `sn-sp-said-${state}` }, STATE_WORDS[state], wrong ? node("span", { class: "sn-sp-wrong" }, "! not the rule's") : null),
  );
}

function passTable(pass) {
  const head = ["draft", "p, the model's", "q, the draft's", "kept when u < p / q", "verdict"];
  return node(
    "table", { class: "sn-sp-table" },
    node("thead", {}, node("tr", {}, ...head.map((words) => node("th", { scope: "col" }, words)))),
    node("tbody", {},
      ...pass.drafts.map((_, at) => draftRow(pass.drafts, at)),
      node("tr", {},
        node("th", { scope: "row" }, tokenSpan(pass.last.text, pass.last.kind)),
        node("td", { colspan: 3, class: "sn-sp-origin" }, lastWords(pass.last)),
        node("td", {}, LAST_WORDS[pass.last.kind])),
    ),
  );
}

// A bar per pass: kept drafts, on them the model's own token.
function drawBars(story, shown, width) {
  const places = barPlaces(story, width);
  const { tokens, passes } = totals(story, story.passes.length - 1);
  const words = `Tokens per pass: ${story.passes.map((pass) => numKept(pass) + 1).join(", ")}. On average ${(tokens / passes).toFixed(2)}.`;
  const picture = drawing(
    width, places.height, words, { class: "sn-picture" },
    ...[0, places.most].flatMap((mark) => [
      svg("path", { d: `M${places.left} ${places.y(mark)}H${places.right}`, class: "sn-track" }),
      chartText(places.left - 6, places.y(mark) + 4, "end", String(mark)),
    ]),
    ...story.passes.flatMap((pass, index) => {
      const kept = numKept(pass);
      const bar = (from, to, kind) => svg("rect", {
        x: places.x(index), width: places.bar, y: places.y(to), height: places.y(from) - places.y(to),
        class: `sn-sp-bar-${kind}${index > shown ? " sn-sp-ahead" : ""}`,
      });
      return [bar(0, kept, "kept"), bar(kept, kept + 1, pass.last.kind)];
    }),
    svg("path", { d: `M${places.x(shown) + places.bar / 2} ${places.top - 2}l-4 -6h8Z`, class: "sn-sp-pointer" }),
  );
  return { picture, passAt: places.passAt };
}

// The automaton, with the states of the shown pass: reached, and taken back with rejected drafts.
function drawAutomaton(story, shown, width) {
  const { places, height } = statePlaces(story.automaton, width);
  const { from, through, back, to } = statesOf(story, shown);
  const words = automatonWords(story, shown);
  const edges = story.automaton.flatMap(([start, end, characters]) => {
    const [a, b] = [places.get(start), places.get(end)];
    const isBack = b.x <= a.x;
    const path = isBack ? `M${a.x} ${a.y}C${a.x} ${height - 4} ${b.x} ${height - 4} ${b.x} ${b.y}` : `M${a.x} ${a.y}L${b.x} ${b.y}`;
    const [x, y] = isBack ? [(a.x + b.x) / 2, height - 18] : [(a.x + b.x) / 2, (a.y + b.y) / 2 - 5];
    return [svg("path", { d: path, class: "sn-sp-edge" }), chartText(x, y, "middle", tokenMark(characters), "sn-sp-label")];
  });
  const states = [...places].flatMap(([state, { x, y }]) => {
    const kind = state === to ? "to" : through.includes(state) || state === from ? "through" : back.includes(state) ? "back" : "other";
    return [
      svg("circle", { cx: x, cy: y, r: 13, class: `sn-sp-state sn-sp-state-${kind}` }),
      chartText(x, y + 4, "middle", String(state), `sn-sp-number sn-sp-number-${kind}`),
    ];
  });
  const picture = drawing(Math.min(width, 640), height, words, {}, ...edges, ...states);
  const key = (kind, said) => legendKey(said, 18, svg("circle", { cx: 9, cy: 7, r: 6, class: `sn-sp-state sn-sp-state-${kind}` }));
  return [
    node("p", { class: "sn-sp-caption" }, "the automaton after this pass: characters lead from state to state"), picture,
    legendOf(key("to", "now"), key("through", "on the way"), key("back", "taken back")),
  ];
}

function legend(story) {
  const kinds = new Set(story.passes.flatMap((pass) => [...pass.drafts.map((_, at) => draftState(pass.drafts, at)), pass.last.kind]));
  const all = { kept: "drafted and kept", rejected: "drafted and rejected", unread: "drafted, behind a rejected one", bonus: "bonus", resampled: "resampled", plain: "plain decode" };
  return legendOf(...Object.entries(all).filter(([kind]) => kinds.has(kind)).map(([kind, words]) => node("li", {}, tokenSpan("a", kind), words)));
}

function build({ story }, moves) {
  const passes = story.passes.map(passSpans);
  const strip = node("p", { class: "sn-sp-strip", role: "img", onmousedown: keepFocus }, node("span", { class: "sn-sp-prompt" }, story.prompt), ...passes);
  const table = node("div", { class: "sn-sp-tablebox" });
  const automaton = story.automaton ? node("div", { class: "sn-sp-tablebox" }) : null;
  const passUnder = (event) => drawnBars.passAt(pointIn(bars, event)[0]);
  const bars = node("div", {
    onpointermove: (event) => hover(passUnder(event)),
    onpointerleave: () => hover(null),
    onclick: (event) => moves.go(passUnder(event)),
    onmousedown: keepFocus,
  });
  let drawnBars = null;
  let hovered = null;
  let drawn = null;
  const draw = (step, width) => {
    const shown = hovered ?? step;
    passes.forEach((span, index) => {
      span.classList.toggle("sn-sp-now", index === shown);
      span.classList.toggle("sn-sp-future", index > Math.max(step, shown));
    });
    strip.setAttribute("aria-label", `The text after this pass: ${standing(story, shown)}`);
    if (drawn !== shown) table.replaceChildren(passTable(story.passes[shown]));
    automaton?.replaceChildren(...drawAutomaton(story, shown, width));
    drawn = shown;
    drawnBars = drawBars(story, step, width);
    bars.replaceChildren(drawnBars.picture);
  };
  const hover = (index) => {
    if (index === hovered) return;
    hovered = index;
    moves.redraw();
  };
  passes.forEach((span, index) => {
    span.addEventListener("pointerenter", () => hover(index));
    span.addEventListener("pointerleave", () => hover(null));
    span.addEventListener("click", () => moves.go(index));
  });
  return {
    count: passes.length, label: "Verifying passes", name: (step) => `pass ${step + 1} of ${passes.length}`, delay: () => 1600, lines: 3,
    draw,
    says: (step) => passWords(story, step) + (automaton ? `\n${automatonWords(story, step)}` : ""),
    facts: [factChips([`k = ${story.num_draft_tokens}`, `temperature ${story.temperature}`], false)],
    below: [strip, ...(automaton ? [automaton] : []), table, node("p", { class: "sn-sp-caption" }, "tokens of each pass"), bars, legend(story)],
    opening: stripOpening(story),
  };
}

export default steppedPicture({ name: "speculation-strip", label: "Speculative decoding, pass by pass", inputs: ["story"], build });
