// Lighthouse on pages of the built site, served compressed as hosts do: the median of some runs.
// Arguments: folder of the site, its address on this machine, Chrome, number of runs, kinds (mobile,
// desktop), pages. Prints a line for each page and kind.
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, normalize } from "node:path";
import { pathToFileURL } from "node:url";
import { createGzip } from "node:zlib";

const require = createRequire(join(process.cwd(), "package.json"));
const { default: lighthouse, desktopConfig } = await import(pathToFileURL(require.resolve("lighthouse")));
const { launch } = await import(pathToFileURL(require.resolve("chrome-launcher")));

const [site, address, chromePath, runs, kinds, ...pages] = process.argv.slice(2);
const CONFIGS = { mobile: undefined, desktop: desktopConfig };
const KINDS = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain", ".xml": "text/xml" };
const CATEGORIES = ["performance", "accessibility", "best-practices", "seo"];
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const server = createServer((request, response) => {
  const path = join(site, normalize(new URL(request.url, "http://localhost").pathname));
  if (!existsSync(path)) return response.writeHead(404).end();
  const kind = KINDS[extname(path)];
  const how = { "Content-Type": kind ? `${kind}; charset=utf-8` : "application/octet-stream", "Cache-Control": "max-age=600" };
  response.writeHead(200, kind ? { ...how, "Content-Encoding": "gzip" } : how);
  const file = createReadStream(path);
  (kind ? file.pipe(createGzip()) : file).pipe(response);
});
await new Promise((resolve) => server.listen(new URL(address).port, "127.0.0.1", resolve));
const chrome = await launch({ chromePath, chromeFlags: FLAGS });

async function measured(page, config) {
  const { lhr } = await lighthouse(`${address}/${page}`, { port: chrome.port, logLevel: "error" }, config);
  const scores = CATEGORIES.map((name) => Math.round(100 * lhr.categories[name].score));
  const audit = (name) => lhr.audits[name].numericValue;
  const failed = CATEGORIES.slice(1).flatMap((name) => lhr.categories[name].auditRefs)
    .map(({ id }) => lhr.audits[id]).filter(({ score }) => score !== null && score < 1).map(({ id }) => id);
  return { scores, shift: audit("cumulative-layout-shift"), blocked: audit("total-blocking-time"), paint: audit("largest-contentful-paint"), failed };
}

console.log("performance accessibility practices seo | shift | blocked ms | paint s | kind page");
for (const page of pages) {
  for (const kind of kinds.split(",")) {
    const found = [];
    for (let run = 0; run < runs; run++) found.push(await measured(page, CONFIGS[kind]));
    found.sort((a, b) => a.scores[0] - b.scores[0]);
    const { scores, shift, blocked, paint, failed } = found[Math.floor(runs / 2)];
    console.log([scores.join(" "), shift.toFixed(3), blocked.toFixed(0), (paint / 1000).toFixed(2), `${kind} ${page}`, ...failed].join(" | "));
  }
}
await chrome.kill();
server.close();
