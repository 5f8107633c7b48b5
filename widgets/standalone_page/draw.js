const { modules, widgets } = JSON.parse(document.getElementById("widgets").textContent);
const loaded = new Map();
for (const [kind, source] of Object.entries(modules)) {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  loaded.set(kind, (await import(address)).default);
  URL.revokeObjectURL(address);
}
widgets.forEach(({ kind, state }, index) => {
  const el = document.getElementById(`widget-${index}`);
  loaded.get(kind).render({ model: createModel(state), el });
});
await drawn();
document.documentElement.dataset.ready = "true";
