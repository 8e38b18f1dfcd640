// Every page can be read without this script.

// The landing page goes to the language chosen last.
document.querySelectorAll(".languages a").forEach((link) => {
  link.addEventListener("click", () => localStorage.setItem("language", link.dataset.code));
});

// An address of the time when all mistakes were on one page: it goes on to the entry.
const entry = document.getElementById(location.hash.slice(1))?.closest(".entry");
if (entry) location.replace(entry.querySelector("a").href);

// A button on each code block, where the browser lets pages copy (https, localhost).
const button = document.getElementById("copy-button")?.content.firstElementChild;
if (button && navigator.clipboard) {
  document.querySelectorAll("article div.highlight:not(.cell_output *)").forEach((block) => {
    const copy = block.appendChild(button.cloneNode(true));
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent);
      copy.classList.add("copied");
      copy.title = copy.ariaLabel = copy.dataset.copied;
    });
  });
}

// Only formulas that are too wide for the page need the keyboard to scroll.
const formulas = document.querySelectorAll("div.math");
const stops = () => formulas.forEach((box) => {
  box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
});
addEventListener("resize", stops);
addEventListener("load", stops);
