// Which signs each of KaTeX's fonts has to hold: those that the pages set in it.

// The rules of KaTeX's style that choose a font, in its order: {classes: all of them on the element,
// or on its parent where `inside`; family, weight, style: what the rule sets}.
function rules(css) {
  const found = [];
  for (const [, selectors, body] of css.replace(/@font-face\s*\{[^}]*\}/g, "").matchAll(/([^{}]+)\{([^}]*)\}/g)) {
    const [, family] = /font(?:-family)?:[^;]*?KaTeX_(\w+)/.exec(body) ?? [];
    const [, weight] = /font-weight:\s*(\w+)/.exec(body) ?? [];
    const [, style] = /font-style:\s*(\w+)/.exec(body) ?? [];
    if (!(family ?? weight ?? style)) continue;
    for (const selector of selectors.split(",")) {
      const inside = />\s*span\s*$/.test(selector);
      const last = selector.replace(/>\s*span\s*$/, "").trim().split(/\s+/).at(-1);
      found.push({ classes: last.split(".").filter(Boolean), inside, family, weight, style });
    }
  }
  return found;
}

const PLAIN = { family: "Main", weight: "normal", style: "normal" };

function styled(inherited, classes, parents, every) {
  const font = classes.includes("katex") ? { ...PLAIN } : { ...inherited };
  for (const { classes: wanted, inside, ...sets } of every) {
    const on = inside ? parents : classes;
    if (!wanted.includes("katex") && wanted.every((name) => on.includes(name))) {
      for (const [key, value] of Object.entries(sets)) if (value) font[key] = value;
    }
  }
  return font;
}

function named({ family, weight, style }) {
  const face = (weight === "bold" ? "Bold" : "") + (style === "italic" ? "Italic" : "");
  return `KaTeX_${family}-${face || "Regular"}`;
}

// Return a map from the name of a font to its signs.
export function signs(pages, css, Parser) {
  const every = rules(css), held = new Map();
  let open = [];
  const parser = new Parser({
    onopentag(tag, { class: names = "" }) {
      const classes = names.split(/\s+/), above = open.at(-1);
      const starts = classes.includes("katex") || tag === "math"; // a picture's
      const unseen = classes.includes("katex-mathml"); // which is read aloud
      const font = !unseen && (starts || above?.font) ? styled(above?.font ?? PLAIN, classes, above?.classes ?? [], every) : null;
      open.push({ classes, font });
    },
    ontext(text) {
      const font = open.at(-1)?.font;
      if (!font) return;
      if (!held.has(named(font))) held.set(named(font), new Set());
      for (const sign of text) held.get(named(font)).add(sign);
    },
    onclosetag() {
      open.pop();
    },
  });
  for (const page of pages) {
    open = [];
    parser.parseComplete(page);
  }
  return held;
}
