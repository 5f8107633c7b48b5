// Steps through the layers of a pass: every rank's vote, the collective's answer, who left where.

import { boxKey, chartText, drawing, hatch, legendOf, middleWithin } from "./chart.js";
import { createScroller } from "./column_picture.js";
import { freshId, node, svg } from "./dom.js";
import { laneName } from "./lanes.js";
import { choiceButtons } from "./player.js";
import { steppedPicture } from "./stepped.js";
import { boardOpening, boardPlaces, checkAt, hasEnded, layerWords, layersRun, stateAt, timesWords, workKind, workWords, writeAt } from "./vote_board_layout.js";

const INSET = 2;

function drawCell(board, rank, layer, step, places, stripes) {
  const state = stateAt(board, rank, layer);
  const box = {
    x: places.x(layer) + INSET, y: places.y(rank) + INSET, width: places.cell - 2 * INSET, height: places.row - 2 * INSET, rx: 4,
  };
  if (layer > step) return svg("rect", { ...box, class: "sn-vb-ahead" });
  const vote = checkAt(board, rank, layer)?.vote;
  const voted = vote === 1 && state !== "never" ? " sn-vb-one" : "";
  const [middle, y] = [box.x + box.width / 2, box.y + 24];
  const dots = () => [-6, 0, 6].map((dx) => svg("circle", { cx: middle + dx, cy: y, r: 1.8, class: "sn-vb-dots" }));
  const exit = () => [svg("path", { d: `M${middle - 7} ${y}h11m-4 -3.5l4 3.5l-4 3.5M${middle + 7.5} ${y - 5}v10`, class: `sn-vb-exit sn-vb-exit-${state}` })];
  const cross = () => [svg("path", { d: `M${middle - 4} ${y - 4}l8 8m0 -8l-8 8`, class: "sn-vb-cross" })];
  const ends = { left: exit, alone: exit, hangs: dots, crashed: cross };
  return svg(
    "g", {},
    svg("rect", { ...box, class: `sn-vb-${state}${voted}`, fill: state === "never" ? `url(#${stripes})` : null }),
    state === "never" ? null : chartText(middle, box.y + (state === "ran" ? 21 : 16), "middle", vote === undefined ? "?" : String(vote), "sn-vb-vote"),
    ...(ends[state]?.() ?? []),
  );
}

function drawResult(board, layer, places) {
  const line = board.record.checks.length;
  const result = board.results[layer];
  const stuck = result === null && !hasEnded(board) && layer === board.endings.reduce((least, ending) => Math.min(least, ending.layer), Infinity);
  if (result === null && !stuck) return null;
  const box = { x: places.x(layer) + INSET, y: places.y(line) + INSET, width: places.cell - 2 * INSET, height: places.row - 2 * INSET, rx: 14 };
  const kind = stuck ? "stuck" : result ? "yes" : "no";
  return svg("g", {},
    svg("rect", { ...box, class: `sn-vb-result sn-vb-result-${kind}` }),
    chartText(box.x + box.width / 2, box.y + 21, "middle", stuck ? "–" : String(result), "sn-vb-vote"));
}

// The write as one line through the rows, bent where ranks were at different layers.
function drawWrite(board, step, places) {
  const points = board.record.checks.map((_, rank) => ({ rank, at: writeAt(board, rank) })).filter(({ at }) => at !== null);
  if (!points.length || Math.max(...points.map(({ at }) => Math.floor(at))) > step) return null;
  const path = points.flatMap(({ rank, at }) => [`${places.between(at)} ${places.y(rank) + 1}`, `${places.between(at)} ${places.y(rank) + places.row - 1}`]);
  const first = places.between(points[0].at);
  const words = `${board.mark} written`;
  const middle = middleWithin(first, words.length * 6.6, places.left - 40, places.width);
  return svg(
    "g", {},
    svg("path", { d: `M${path.join("L")}`, class: "sn-vb-write" }),
    svg("path", { d: `M${first - 5} ${places.top - 7}h10l-5 7Z`, class: "sn-vb-tip" }),
    chartText(middle, places.top - 12, "middle", words, "sn-name"),
  );
}

function drawWork(board, step, places) {
  const { num_layers: layers } = board.record;
  const kind = workKind(board);
  const run = kind === "lost" ? layersRun(board) : board.record.layer;
  const box = { y: places.work, height: 12, rx: 3 };
  return svg(
    "g", {},
    chartText(0, places.work + 10, "start", "work"),
    svg("rect", { ...box, ...places.cut(0, layers), class: "sn-vb-all" }),
    svg("rect", { ...box, ...places.cut(0, Math.min(run, step + 1), 0), class: step + 1 >= run ? `sn-vb-work-${kind}` : "sn-vb-work" }),
  );
}

function drawBoard(board, step, width) {
  const places = boardPlaces(board, width);
  const { num_layers: layers, checks } = board.record;
  const stripes = freshId("never");
  const every = Math.ceil(18 / places.cell);
  const ofLayer = (layer) => [
    layer % every === 0 || layer === step
      ? chartText(places.x(layer) + places.cell / 2, 12, "middle", String(layer), layer === step ? "sn-name" : "sn-axis") : null,
    ...checks.map((_, rank) => drawCell(board, rank, layer, step, places, stripes)),
    board.results.length && layer <= step ? drawResult(board, layer, places) : null,
  ];
  const column = { x: places.x(step), y: places.top - 3, width: places.cell, height: places.work - places.top - 5, rx: 6 };
  const picture = drawing(
    places.width, places.height, `${board.label}. ${layerWords(board, step)}`, {},
    svg("defs", {}, hatch(stripes, "sn-vb-stripe", 2)),
    step < layers ? svg("rect", { ...column, class: "sn-vb-column" }) : null,
    ...[...Array(layers).keys()].flatMap(ofLayer),
    chartText(0, 12, "start", "layer"),
    ...checks.map((_, rank) => laneName(places.y(rank) + 22, `rank ${rank}`)),
    board.results.length ? laneName(places.y(checks.length) + 22, "MAX") : null,
    drawWrite(board, step, places), drawWork(board, step, places),
  );
  return { picture, places };
}

function legend(boards) {
  const swatch = (className, words) => boxKey(className, words, 16);
  const some = (how) => boards.some((board) => board.endings.some((ending) => ending.how === how));
  return legendOf(
    "0 and 1: a rank's vote at the layer's attention op",
    boards.some((board) => hasEnded(board) && board.endings[0].how === "left") ? swatch("sn-vb-left", "left, with all the others") : null,
    boards.some((board) => !hasEnded(board) && board.endings.some((ending) => ending.how === "left")) ? swatch("sn-vb-alone", "left alone") : null,
    some("hangs") ? swatch("sn-vb-hangs", "waits for a rank that does not come") : null,
    some("crashed") ? swatch("sn-vb-crashed", "crashed") : null,
    some("left") ? swatch("sn-vb-never sn-vb-never-key", "never run") : null,
    boards.some((board) => board.results.length) ? swatch("sn-vb-result sn-vb-result-yes", "the collective's answer") : null,
  );
}

function build({ boards }, moves) {
  const scroller = createScroller();
  const times = node("p", { class: "sn-vb-times" });
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  let board = boards[0];
  const draw = (step, width) => {
    const kind = workKind(board);
    // What the pass came to is said once the last rank's end is in view.
    const over = step >= Math.min(layersRun(board), board.record.num_layers - 1);
    chip.hidden = !over;
    chip.textContent = { wasted: `wasted ${Math.round(100 * board.wasted_share)} %`, kept: "kept for later", lost: "hangs", finished: "finished" }[kind];
    chip.classList.toggle("sn-vb-chip-bad", kind === "lost");
    times.textContent = over ? [timesWords(board), workWords(board)].filter(Boolean).join(" ") : "";
    const { picture, places } = drawBoard(board, step, width);
    scroller.place(picture, width, "Votes, scrolls sideways");
    scroller.reveal({ x: places.x(step), width: places.cell });
  };
  const choice = choiceButtons(boards.map((each) => each.label), 0, (index) => {
    board = boards[index];
    moves.again();
  });
  return {
    count: Math.max(...boards.map((each) => each.record.num_layers)), label: "Layers of the pass", lines: 3,
    extras: boards.length > 1 ? choice.buttons : [],
    name: (step) => `layer ${step}`,
    draw,
    says: (step) => [board.words, layerWords(board, step)].filter(Boolean).join("\n"),
    facts: [chip],
    below: [scroller.element, times, legend(boards)],
    opening: boardOpening(board),
  };
}

export default steppedPicture({ name: "vote-board", label: "The votes of a pass", inputs: ["boards"], build });
