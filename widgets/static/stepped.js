// A picture that is stepped through, from its title to its legend: the frame that nearly all share.

import { mount, titleRow } from "./dom.js";
import { createPlayer } from "./player.js";

// `build(records, moves)` returns one picture of the widget's `inputs`: what `createPlayer` takes
// (count, label, name, delay, extras, group); `says(step)`, the words of the live line, for which
// `lines` are kept free; `draw(step, width)`, called at every step and every new width, after
// `layOut(width)` where there is one; `facts` beside the title; `above` and `below` the live line;
// the `opening` step; `sliders` among the extras; and for a picture of one step, which is `still`,
// the `frame` that has its width.
// `moves` is { step(), go(step), again(), redraw() }, for what is pressed later.
export function steppedPicture({ name, label, inputs, build }) {
  const place = (root, model) => {
    const records = Object.fromEntries(inputs.map((input) => [input, model.get(input)]));
    return placeStepped(root, model, (moves) => build(records, moves));
  };
  return {
    render: ({ model, el }) => mount({
      model, el, name, label, inputs: [...inputs, "title"], build: (root) => place(root, model),
    }),
  };
}

function placeStepped(root, model, build) {
  let width = 0;
  const redraw = () => {
    if (!width) return;
    picture.layOut?.(width);
    picture.draw(player.step(), width);
  };
  const again = () => player.go(player.step());
  const moves = { step: () => player.step(), go: (step) => player.go(step), again, redraw };
  const picture = build(moves);
  const { facts = [], above = [], below, sliders = [], still = false, lines = null } = picture;
  const player = createPlayer({
    ...picture, root,
    onStep: (step) => {
      if (width) picture.draw(step, width);
      return picture.says(step);
    },
  });
  sliders.forEach((slider) => slider.frame(player));
  if (still) player.live.classList.add("sn-still");
  if (lines) player.live.style.minHeight = `${1.5 * lines}em`;
  const bar = still ? [] : [player.toolbar, player.keys];
  root.append(...[titleRow(model, ...facts), ...bar, ...above, player.live, ...below].filter(Boolean));
  player.open(model, picture.opening);
  return player.sized((room) => {
    width = room;
    redraw();
  }, picture.frame);
}
