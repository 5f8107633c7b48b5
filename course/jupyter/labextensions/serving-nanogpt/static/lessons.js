// A JupyterLab extension as it is loaded: a container, in which "./extension" is the plugin.
// It asks JupyterLab for nothing but the application, and so needs no builder.

const STYLE = `
.jp-Notebook .jp-Cell-inputWrapper:has(.jp-Placeholder) { font-size: 10px; opacity: 0 }
.jp-Notebook .jp-Cell:is(:hover, .jp-mod-active) .jp-Cell-inputWrapper:has(.jp-Placeholder) {
  opacity: 1;
}
.jp-RenderedHTMLCommon :is(.sng-task, .sng-report) :is(code, pre) {
  background: none; margin: 0; padding: 0;
}
.jp-RenderedHTMLCommon .sng-task :is(dt, dd) { float: none; width: auto }
`;

const lessons = {
  id: "serving-nanogpt:lessons",
  description: "Runs a lesson when it is opened, as marimo does.",
  autoStart: true,
  activate(app) {
    const style = document.createElement("style");
    style.textContent = STYLE;
    document.head.append(style);
    app.docRegistry.addWidgetExtension("Notebook", {
      createNew(panel, context) {
        void Promise.all([context.ready, panel.revealed]).then(async () => {
          if (!context.model.getMetadata("serving_nanogpt")) return;
          await panel.sessionContext.ready;
          app.shell.activateById(panel.id);
          void app.commands.execute("notebook:run-all-cells");
          panel.content.activeCellIndex = 0; // it has gone to the last
          await panel.content.scrollToItem(0);
        });
      },
    });
  },
};

globalThis._JUPYTERLAB ??= {};
globalThis._JUPYTERLAB["serving-nanogpt"] = {
  init() {},
  async get() {
    return () => ({ __esModule: true, default: lessons });
  },
};
