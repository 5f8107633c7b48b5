// Runs a Python file in the interpreter of the site's pages: package, course.zip, the file.

import { readFileSync } from "node:fs";

globalThis.postMessage = () => {}; // which a worker has
const [folder, archive, file] = process.argv.slice(2);
const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
try {
  const python = await loadPyodide({ env: { SERVING_NANOGPT_WORK: "/work" }, stdin: () => null });
  python.unpackArchive(new Uint8Array(readFileSync(archive)), "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.insert(0, '/course')");
  python.runPython("from course.tab import stand_ins; stand_ins.install()");
  python.runPython(readFileSync(file, "utf8"));
} catch (error) {
  console.error(error.message); // and not the interpreter's source
  process.exitCode = 1;
}
