// Python as the page sees it: asked for results, one at a time; stopped by ending its worker.
export class Python {
  #worker = null;
  #waiting = null;

  constructor({ base, language, changed }) {
    Object.assign(this, { base, language, changed });
  }

  run(asked) {
    if (!this.#worker) this.#begin();
    else this.changed("running");
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage({ base: this.base, language: this.language, asked });
    });
  }

  stop() {
    this.#end(new Error("stopped"));
    this.changed("stopped");
  }

  #begin() {
    this.#worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => this.#hear(data));
    this.#worker.addEventListener("error", ({ message }) => this.#end(new Error(message)));
    this.changed("loading", 0);
  }

  #hear({ loaded, ready, result, failed }) {
    if (loaded !== undefined) this.changed("loading", loaded);
    if (ready) this.changed("running");
    if (failed) this.#end(new Error(failed));
    if (result) {
      this.#waiting?.resolve(result);
      this.#waiting = null;
      this.changed("ready");
    }
  }

  #end(error) {
    this.#worker?.terminate();
    this.#waiting?.reject(error);
    this.#worker = this.#waiting = null;
  }
}
