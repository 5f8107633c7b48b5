// Steps through the moments of requests: the predicted bar from now, and the deadline it must meet.

import { boxKey, chartText, drawing, hatch, legendKey, legendOf, middleWithin } from "./chart.js";
import { factChips, freshId, node, svg } from "./dom.js";
import { laneScale } from "./lanes.js";
import { signedDuration, fateWords } from "./signed_words.js";
import { agrees, axisTicks, momentOf, momentWords, scoreLine } from "./slack_timeline_layout.js";
import { steppedPicture } from "./stepped.js";
import { count, duration, number } from "./words.js";

const LEFT = 10;
const RIGHT = 16;
const DEADLINE_Y = 12;
const NOW_Y = 31;
const BAR_Y = 40;
const BAR = 28;
const GAP_Y = 84;
const BASE = 118;
const HEIGHT = 154;
const TWO_COLUMNS = 760;
const BETWEEN = 24;
const CHARACTER = 9.2;

// Text as near to `x` as the picture's edges allow.
function inside(x, y, words, className, width) {
  return chartText(middleWithin(x, words.length * CHARACTER, 0, width), y, "middle", words, className);
}

function drawAxis(marks, scale, width) {
  return svg(
    "g", {}, svg("path", { d: `M${LEFT} ${BASE}H${scale.right + 8}`, class: "sn-line" }),
    ...marks.flatMap((ms) => {
      const x = scale.x(ms * 1000);
      return [svg("path", { d: `M${x} ${BASE}v5`, class: "sn-line" }), inside(x, BASE + 18, number(ms), "sn-axis", width)];
    }),
    chartText(0, BASE + 34, "start", "arrival", "sn-name"), chartText(width, BASE + 34, "end", "ms after the arrival"),
  );
}

function drawBar(moment, scale, stripes) {
  const part = (from, to, more) => (to > from ? svg("rect", { ...scale.cut(from, to, 1), y: BAR_Y, height: BAR, ...more }) : null);
  const inTime = Math.max(moment.now, Math.min(moment.end, moment.deadline));
  return svg(
    "g", {},
    part(moment.end, moment.wholeEnd, { fill: `url(#${stripes})`, class: "sn-sk-done" }),
    part(moment.now, inTime, { class: "sn-sk-bar" }),
    part(inTime, moment.end, { class: "sn-sk-late" }),
  );
}

// The bracket between the end of the bar and the deadline, with the slack that was handed in.
function drawGap(moment, { x }, width) {
  const kind = moment.gap >= 0 ? "sn-sk-spare" : "sn-sk-over";
  const colour = agrees(moment) ? `${kind}-text` : "sn-sk-differs";
  const [from, to] = [x(Math.min(moment.end, moment.deadline)), x(Math.max(moment.end, moment.deadline))];
  const words = `slack ${signedDuration(moment.slack_us)}`;
  const shown = agrees(moment) ? words : `${words} (drawn: ${signedDuration(moment.gap)})`;
  // Words that are wider than the gap keep to its side of the deadline.
  const half = (shown.length * CHARACTER) / 2 + 4;
  const narrow = moment.gap >= 0 ? x(moment.deadline) - half : x(moment.deadline) + half;
  const middle = to - from >= 2 * half ? (from + to) / 2 : narrow;
  return svg("g", {},
    svg("path", { d: `M${from} ${GAP_Y - 7}v7H${to}v-7`, class: kind }),
    inside(middle, GAP_Y + 17, shown, `sn-sk-slack ${colour}`, width));
}

function drawLines(moment, { x }, width) {
  const [now, deadline] = [x(moment.now), x(moment.deadline)];
  return svg(
    "g", {},
    svg("path", { d: `M${x(0)} ${BASE - 12}V${BASE}`, class: "sn-sk-arrival" }),
    svg("path", { d: `M${deadline} ${DEADLINE_Y + 5}V${BASE}`, class: "sn-sk-deadline" }),
    svg("path", { d: `M${now} ${NOW_Y + 3}V${BASE}`, class: "sn-sk-now" }),
    inside(deadline, DEADLINE_Y, "deadline", "sn-name", width),
    inside(now, NOW_Y, "now", "sn-name", width),
  );
}

function drawCase(item, step, cases, width) {
  const moment = momentOf(item, step);
  const marks = axisTicks(cases, width < 420 ? 4 : 6);
  const scale = laneScale({ from: 0, to: marks[marks.length - 1] * 1000 }, LEFT, width - RIGHT);
  const stripes = freshId("done");
  const picture = drawing(
    width, HEIGHT, momentWords(item, step), {},
    svg("defs", {}, hatch(stripes, "sn-sk-stripe", 2.3)),
    drawAxis(marks, scale, width), drawBar(moment, scale, stripes), drawLines(moment, scale, width), drawGap(moment, scale, width),
  );
  return node("div", { class: "sn-sk-case" },
    node("p", { class: "sn-sk-label" }, node("strong", {}, item.label), ` ${scoreLine(moment)}: ${fateWords(moment.slack_us)}`),
    picture);
}

function legend(cases) {
  const some = (test) => cases.some((item) => item.moments.some((_, step) => test(momentOf(item, step))));
  return legendOf(
    boxKey("sn-sk-bar", "predicted TTFT, from now", 22),
    some((moment) => moment.gap < 0) ? boxKey("sn-sk-late", "past the deadline", 22) : null,
    some((moment) => moment.whole_us > moment.predicted_us)
      ? legendKey("already computed: not paid for again", 22,
        svg("rect", { x: 1, y: 1, width: 20, height: 12, class: "sn-sk-done" }),
        svg("path", { d: "M5 13L11 1M12 13L18 1", class: "sn-sk-stripe", "stroke-width": 2 }))
      : null,
  );
}

function build({ cases }) {
  const stage = node("div", { class: "sn-sk-stage" });
  const moments = cases[0].moments.length;
  const models = new Set(cases.map(({ a, c }) => `predicted TTFT = ${duration(a)} · tokens + ${duration(c)}`));
  return {
    count: moments, label: "Moments", lines: 4, delay: () => 1100,
    name: (step) => (moments > 1 ? `moment ${step + 1} of ${moments}` : count(moments, "moment")),
    draw: (step, width) => {
      const columns = width >= TWO_COLUMNS && cases.length > 1 ? 2 : 1;
      const room = Math.floor((width - (columns - 1) * BETWEEN) / columns);
      stage.style.gridTemplateColumns = `repeat(${columns}, ${room}px)`;
      stage.replaceChildren(...cases.map((item) => drawCase(item, step, cases, room)));
    },
    says: (step) => cases.map((item) => momentWords(item, step)).join("\n"),
    facts: [factChips([...models], false)],
    below: [stage, legend(cases)],
  };
}

export default steppedPicture({ name: "slack-timeline", label: "Slack on a time axis", inputs: ["cases"], build });
