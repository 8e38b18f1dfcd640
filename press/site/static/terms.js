// What a term means: beside it on hover and focus, below its line for fingers. Without this script a term
// is a link to its row of the glossary.
(() => {
  const template = document.getElementById("terms");
  const told = new Map([...template.content.querySelectorAll("[data-term]")].map((of) => [`#${of.dataset.term}`, of]));
  const box = template.content.querySelector(".meaning");
  const sheet = new URL("terms.css", document.currentScript.src).href;
  let finger = false; // what pointed last
  let shown = null; // the term whose meaning is open
  let held = false; // until it is asked for again
  let timer;

  function open(term) {
    clearTimeout(timer);
    if (term === shown) return;
    const { top } = term.getBoundingClientRect();
    close();
    shown = term;
    box.firstElementChild.replaceWith(told.get(term.hash).cloneNode(true));
    box.lastElementChild.href = term.href;
    term.after(box);
    term.setAttribute("aria-expanded", "true");
    term.setAttribute("aria-describedby", box.id);
    box.popover = finger ? null : "manual";
    if (!finger) place(term);
    // the line stays where it was, though a fold above it has closed
    scrollBy({ top: term.getBoundingClientRect().top - top, behavior: "instant" });
  }

  function close() {
    clearTimeout(timer);
    if (!shown) return;
    box.remove();
    shown.setAttribute("aria-expanded", "false");
    shown.removeAttribute("aria-describedby");
    shown = null;
    held = false;
  }

  // Below the last line of the term, or above its first where there is no room.
  function place(term) {
    box.showPopover();
    const lines = term.getClientRects(), first = lines[0], last = lines[lines.length - 1];
    const { width, height } = box.getBoundingClientRect(), gap = 6;
    const most = document.documentElement.clientWidth - width - 16;
    const top = last.bottom + gap + height > innerHeight && first.top - gap > height ? first.top - gap - height : last.bottom + gap;
    box.style.left = `${scrollX + Math.max(16, Math.min(last.left, most))}px`;
    box.style.top = `${scrollY + top}px`;
  }

  const later = (act, wait) => { clearTimeout(timer); timer = setTimeout(act, wait); };
  const around = (element) => box.contains(element) || shown === element;
  const leave = () => { if (!held && !around(document.activeElement)) later(close, 250); };

  function prepare(term) {
    term.setAttribute("role", "button");
    term.setAttribute("aria-expanded", "false");
    term.addEventListener("pointerenter", ({ pointerType }) => {
      if (pointerType === "touch") return;
      finger = false;
      later(() => open(term), 120);
    });
    term.addEventListener("pointerleave", leave);
    term.addEventListener("focus", () => { if (term.matches(":focus-visible")) open(term); });
    term.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (term === shown && held) return close();
      open(term);
      held = true;
    });
    term.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      term.click();
    });
  }

  if (box.showPopover) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: sheet }));
    document.querySelectorAll("a.term").forEach(prepare);
    box.addEventListener("pointerenter", () => clearTimeout(timer));
    box.addEventListener("pointerleave", leave);
    addEventListener("pointerdown", ({ pointerType }) => { finger = pointerType === "touch"; });
    // not earlier than the click: the text would move away from below the finger
    addEventListener("click", ({ target }) => { if (!around(target)) close(); });
    addEventListener("focusin", ({ target }) => { if (!around(target) && target.matches(":focus-visible")) close(); });
    addEventListener("keydown", ({ key }) => {
      finger = false;
      if (key !== "Escape" || !shown) return;
      if (box.contains(document.activeElement)) shown.focus();
      close();
    });
  }
})();
