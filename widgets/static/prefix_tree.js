// Steps through the tree of published blocks: each behind its parent, with who names it.

import { chartText, legendOf } from "./chart.js";
import { requestHue } from "./column_picture.js";
import { makeReachable, node, svg } from "./dom.js";
import { faceOf, poolStates, shortHash } from "./pool_states.js";
import { treeAt, treeOpening, treePlaces, treeStepWords, treeWords } from "./prefix_tree_layout.js";
import { steppedPicture } from "./stepped.js";

const CHARACTER = 7.3;
const NODE_HEIGHT = 44;
const ACROSS = 18;
const DOWN = 10;

// From the right edge of a parent to the left edge of its child.
function drawLink(from, to, sizes, kind) {
  const [x, y] = [from.column * sizes.across + sizes.box, from.row * sizes.down + NODE_HEIGHT / 2];
  const [right, below] = [to.column * sizes.across, to.row * sizes.down + NODE_HEIGHT / 2];
  return svg("path", { d: `M${x} ${y}h${ACROSS / 2}V${below}H${right}`, class: kind === "gone" ? "sn-pt-link sn-pt-cut" : "sn-pt-link" });
}

function drawNode(hash, entry, { tokens }, place, sizes, trace) {
  const ids = [...new Set(entry.ids)];
  const [x, y] = [place.column * sizes.across, place.row * sizes.down];
  const lone = ids.length === 1 ? ` ${requestHue(trace, ids[0])}` : "";
  const shared = ids.length > 1 ? " sn-pt-shared" : "";
  const group = svg("g", { class: `sn-pt-node${lone}` });
  group.append(svg("rect", { x: x + 2, y: y + 2, width: sizes.box - 4, height: NODE_HEIGHT - 4, rx: 6, class: `sn-pt-${entry.kind}${shared}${entry.fresh ? " sn-pt-fresh" : ""}` }));
  const said = { held: ids.map((id) => `r${id}`).join(" "), cached: "free", gone: "evicted" }[entry.kind];
  group.append(
    chartText(x + 8, y + 19, "start", faceOf(tokens, trace.alphabet), "sn-pt-tokens"), chartText(x + 8, y + 35, "start", said),
    svg("title", {}, `#${shortHash(hash)}: ${said}`),
  );
  return group;
}

function drawTree(trace, { states, nodes }, index) {
  const { places, rows, columns } = treePlaces(nodes);
  const box = Math.max(76, states[0].step.blocks.block_size * CHARACTER + 16);
  const sizes = { box, across: box + ACROSS, down: NODE_HEIGHT + DOWN };
  const tree = treeAt(states, nodes, index);
  const [width, height] = [Math.max(1, columns * sizes.across - ACROSS), Math.max(1, rows * sizes.down)];
  const picture = svg("svg", { width, height, role: "img", "aria-label": treeWords(states, nodes, index) });
  const [links, boxes] = [svg("g", {}), svg("g", {})];
  for (const [hash, entry] of tree) {
    const { parent } = nodes.get(hash);
    if (parent !== null) links.append(drawLink(places.get(parent), places.get(hash), sizes, tree.get(parent).kind));
    boxes.append(drawNode(hash, entry, nodes.get(hash), places.get(hash), sizes, trace));
  }
  picture.append(links, boxes);
  const columnsOfNew = [...tree].filter(([, entry]) => entry.fresh).map(([hash]) => places.get(hash).column);
  return { picture, width, fresh: columnsOfNew.length ? Math.min(...columnsOfNew) * sizes.across : null };
}

// Scrolls to what is new, where it is out of sight.
function showNew(scroller, left, room) {
  if (left === null) return;
  const seen = left >= scroller.scrollLeft && left < scroller.scrollLeft + room * 0.75;
  if (!seen) scroller.scrollLeft = Math.max(0, left - room / 3);
}

function build({ trace: run, alphabet }) {
  const trace = { ...run, alphabet };
  const pool = poolStates(trace);
  const scroller = node("div", { class: "sn-scroll sn-pt-stage" });
  const legend = legendOf(
    "from left to right: a block and its children", "r0: the table of request 0 names it",
    "dashed: free but cached", "thick outline: new in this step",
  );
  return {
    count: pool.states.length, label: "Steps of the tree", name: (step) => `step ${step} of ${pool.states.length - 1}`, delay: () => 1600,
    draw: (step, room) => {
      const { picture, width, fresh } = drawTree(trace, pool, step);
      makeReachable(scroller, width > room, "The tree, wider than the page");
      scroller.replaceChildren(picture);
      showNew(scroller, fresh, room);
    },
    says: (step) => `Step ${pool.states[step].step.step}. ${treeStepWords(pool.states, step)}\n${treeWords(pool.states, pool.nodes, step)}`,
    below: [scroller, legend],
    opening: treeOpening(pool.states),
  };
}

export default steppedPicture({ name: "prefix-tree", label: "The tree of published blocks", inputs: ["trace", "alphabet"], build });
