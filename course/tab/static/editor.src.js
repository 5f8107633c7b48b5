// The editor of the site's exercises: CodeMirror 6 with Python and few extensions. editor.js is
// this file with what it imports, made by
//
//   npm install --no-save codemirror@6.0.2 @codemirror/lang-python@6.2.1 esbuild@0.28.2
//   npx esbuild editor.src.js --bundle --minify --format=esm --legal-comments=none --outfile=editor.js

import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

// An editor of `text` in `parent`. `check` runs on Ctrl/Cmd-Enter, `leave` on Escape, `changed`
// after every edit.
export function createEditor(parent, { text, label, check, leave, changed }) {
  const run = (action) => () => {
    action();
    return true;
  };
  const extensions = [
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("    "),
    bracketMatching(),
    closeBrackets(),
    python(),
    syntaxHighlighting(classHighlighter),
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
    EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString())),
    keymap.of([
      { key: "Mod-Enter", run: run(check) },
      { key: "Escape", run: run(leave) },
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...historyKeymap,
      indentWithTab,
    ]),
  ];
  const view = new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
  return {
    get text() {
      return view.state.doc.toString();
    },
    set text(value) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
    },
    focus: () => view.focus(),
  };
}
