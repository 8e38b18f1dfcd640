// Python, away from the page: it may loop for ever, and the page still answers.
const files = new Map(); // by address: what was fetched compressed, and is handed to Pyodide whole
const fetched = self.fetch;
self.fetch = async (address, options) => {
  const bytes = files.get(new URL(address.url ?? address, self.location).href);
  const kind = String(address.url ?? address).endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  return bytes ? new Response(bytes, { headers: { "Content-Type": kind } }) : fetched(address, options);
};

// A host may say that a .gz is compressed: the browser has then undone it already.
async function whole(address, tell) {
  const response = await fetched(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  const parts = [];
  for (let reader = response.body.getReader(), part; !(part = await reader.read()).done;) {
    parts.push(part.value);
    tell(part.value.length);
  }
  const blob = new Blob(parts), [first, second] = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  const stream = first === 31 && second === 139 ? blob.stream().pipeThrough(new DecompressionStream("gzip")) : blob.stream();
  return new Response(stream).arrayBuffer();
}

async function boot({ base, language }) {
  const sizes = await (await fetched(`${base}sizes.json`)).json();
  const names = ["pyodide.asm.wasm", "python_stdlib.zip", "numpy.zip", `normkit-${language}.zip`];
  const total = names.reduce((sum, name) => sum + sizes[`${name}.gz`], 0);
  let come = 0;
  const tell = (bytes) => self.postMessage({ loaded: (come += bytes) / total });
  const [{ loadPyodide }, ...all] = await Promise.all([
    import(`${base}pyodide.mjs`),
    ...names.map((name) => whole(`${base}${name}.gz`, tell)),
  ]);
  names.forEach((name, i) => files.set(new URL(`${base}${name}`, self.location).href, all[i]));
  const pyodide = await loadPyodide({ indexURL: base, stdout: () => {}, stderr: () => {} });
  const site = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const archive of all.slice(2)) pyodide.unpackArchive(archive, "zip", { extractDir: site });
  files.clear();
  pyodide.runPython("import json, run");
  return (asked) => {
    pyodide.globals.set("asked", JSON.stringify(asked));
    return JSON.parse(pyodide.runPython(`json.dumps(run.${asked.check === undefined ? "page" : "work"}(json.loads(asked)))`));
  };
}

let python;
self.addEventListener("message", async ({ data }) => {
  try {
    const work = await (python ??= boot(data));
    self.postMessage({ ready: true });
    self.postMessage({ result: work({ language: data.language, ...data.asked }) });
  } catch (error) {
    self.postMessage({ failed: String(error) });
  }
});
