// A picture that is stepped through, from its title to its legend: the frame that nearly all share.

import { mount, titleRow } from "./dom.js";
import { createPlayer } from "./player.js";

// `build(model, moves)` returns one picture: what `createPlayer` takes (count, label, name, delay,
// extras, group); `says(step)`, the words of the live line; `draw(step, width)`, called at every
// step and every new width, after `layOut(width)` where there is one; `facts` beside the title;
// `above` and `below` the live line; the `opening` step; `sliders` among the extras; `liveClass`;
// and for a picture of one step, which is `still`, the `frame` that has its width.
// `moves` is { step(), go(step), again(), redraw() }, for what is pressed later.
export function steppedPicture({ name, label, inputs, build }) {
  return {
    render: ({ model, el }) => mount({
      model, el, name, label, inputs: [...inputs, "title"], build: (root) => placeStepped(root, model, build),
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
  const picture = build(model, moves);
  const { facts = [], above = [], below, sliders = [], still = false, liveClass = "" } = picture;
  const player = createPlayer({
    ...picture, root,
    onStep: (step) => {
      if (width) picture.draw(step, width);
      return picture.says(step);
    },
  });
  sliders.forEach((slider) => slider.frame(player));
  for (const each of [liveClass, still && "sn-still"].filter(Boolean)) player.live.classList.add(each);
  const bar = still ? [] : [player.toolbar, player.keys];
  root.append(...[titleRow(model, ...facts), ...bar, ...above, player.live, ...below].filter(Boolean));
  player.open(model, picture.opening);
  return player.sized((room) => {
    width = room;
    redraw();
  }, picture.frame);
}
