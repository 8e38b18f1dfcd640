// Offline: what was read once is there again. Pages come from the network where it answers; what
// Python is made of has its content in its address, and never changes.
const KEPT = "normkit-1";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function keep(request, response) {
  if (!response.ok || response.type === "opaque") return;
  const cache = await caches.open(KEPT), folder = /^.*\/static\/python\//.exec(request.url)?.[0];
  if (folder) {
    const mine = request.url.slice(folder.length).split("/")[0];
    for (const { url } of await cache.keys()) {
      if (url.startsWith(folder) && url.slice(folder.length).split("/")[0] !== mine) await cache.delete(url);
    }
  }
  await cache.put(request, response);
}

async function answer(event) {
  const { request } = event, fixed = request.url.includes("/static/python/");
  const kept = fixed && await caches.match(request);
  if (kept) return kept;
  try {
    const response = await fetch(request);
    event.waitUntil(keep(request, response.clone()));
    return response;
  } catch (error) {
    const found = await caches.match(request, { ignoreSearch: request.mode === "navigate" });
    if (found) return found;
    throw error;
  }
}

self.addEventListener("fetch", (event) => {
  const { method, url, headers } = event.request;
  if (method === "GET" && url.startsWith(self.registration.scope) && !headers.has("range")) event.respondWith(answer(event));
});
