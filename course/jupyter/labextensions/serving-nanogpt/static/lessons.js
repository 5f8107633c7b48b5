// A JupyterLab extension as it is loaded: a container, in which "./extension" is the plugin.
// It asks JupyterLab for nothing but the application, and so needs no builder.

// The course's own cells are folded to a thin line, which shows what it is when it is pointed at;
// the learner's are framed as in marimo. JupyterLab's look of HTML is not for what has its own.
const STYLE = `
.jp-Notebook .jp-Cell-inputWrapper:has(.jp-Placeholder) { margin: -6px 0; opacity: 0 }
.jp-Notebook .jp-Placeholder-content { font-size: 10px; min-height: 0; padding: 0 6px }
.jp-Notebook .jp-Cell:is(:hover, .jp-mod-active) .jp-Cell-inputWrapper:has(.jp-Placeholder) {
  opacity: 1;
}
.jp-Notebook .jp-Cell:has([data-yours]) + .jp-CodeCell .jp-InputArea-editor {
  border: 2px solid var(--jp-brand-color1);
}
.jp-Notebook .jp-Cell:has([data-yours]) + .jp-CodeCell .jp-InputArea-editor::before {
  content: "Your code"; display: block; padding: 2px 6px;
  color: var(--jp-brand-color1); font: 600 12px system-ui, sans-serif;
}
.jp-Notebook .jp-Cell:has([data-yours="exhibit"]) + .jp-CodeCell .jp-InputArea-editor::before {
  content: "The exhibit";
}
.jp-RenderedHTMLCommon :is(.sng-task, .sng-report) :is(code, pre) {
  background: none !important; margin: 0 !important; padding: 0 !important;
}
.jp-RenderedHTMLCommon .sng-task :is(dt, dd) { float: none; width: auto }
.jp-RenderedHTMLCommon .sng-report :is(td, th) { text-align: left }
`;

// Runs every cell of a lesson, and leaves the page and what is typed in it where they are: on a
// slow machine, a learner may be writing before the kernel is there.
async function run(app, panel) {
  const { content } = panel;
  const { activeCellIndex, mode } = content;
  const editor = mode === "edit" ? content.activeCell.editor : null;
  const selection = editor?.getSelection();
  const here = { semanticWidget: panel.id, activate: false };
  void app.commands.execute("notebook:run-all-cells", here); // goes to the last cell
  Object.assign(content, { activeCellIndex, mode });
  editor?.setSelection(selection); // a text's goes to its first heading
  await content.scrollToItem(activeCellIndex);
}

// Has a page show the file once a save of its own was refused because the file was changed outside
// it: each later save would be refused too, and each time JupyterLab would say so.
function follow(app, panel, context) {
  const { contents } = app.serviceManager;
  let following = false;
  context.saveState.connect(async (_, state) => {
    if (state !== "failed" || following) return;
    following = true;
    try {
      const content = context.model.toJSON(); // with what was typed while the save was under way
      await contents.save(context.path, { type: "notebook", format: "json", content });
    } catch (error) {
      if (error.response?.status !== 409) return;
      await context.revert();
      panel.content.activeCellIndex = 0; // its cells are new ones
      await run(app, panel);
    } finally {
      following = false;
    }
  });
}

const lessons = {
  id: "serving-nanogpt:lessons",
  description: "Runs a lesson when it is opened and follows its file, as marimo does.",
  autoStart: true,
  activate(app) {
    const style = document.createElement("style");
    style.textContent = STYLE;
    document.head.append(style);
    app.docRegistry.addWidgetExtension("Notebook", {
      createNew(panel, context) {
        void Promise.all([context.ready, panel.revealed]).then(async () => {
          if (!context.model.getMetadata("serving_nanogpt")) return;
          follow(app, panel, context);
          await panel.sessionContext.ready;
          await run(app, panel);
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
