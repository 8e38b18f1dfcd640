// The editor: CodeMirror with what a task of twenty lines needs. Bundled; loaded at the first click
// into the code. Its look is in bench.css.

import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { cursorCharRight, defaultKeymap, history, historyKeymap, indentLess, indentMore, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { python } from "@codemirror/legacy-modes/mode/python"; // a fifth lighter than lang-python
import { Compartment, EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, ViewPlugin } from "@codemirror/view";
import { tagHighlighter, tags } from "@lezer/highlight";

// The two kinds that the page's own code shows (lean.mjs): bold words, muted words.
const colours = tagHighlighter([
  { tag: [tags.keyword, tags.definition(tags.variableName)], class: "k" },
  { tag: [tags.comment, tags.string], class: "c" },
]);

// The line that Python complained of, until the code changes.
const mark = StateEffect.define();
const marked = StateField.define({
  create: () => Decoration.none,
  update(lines, { docChanged, effects, state: { doc } }) {
    const [set] = effects.filter((effect) => effect.is(mark));
    if (!set) return docChanged ? Decoration.none : lines;
    if (!(set.value >= 1 && set.value <= doc.lines)) return Decoration.none;
    return Decoration.set(Decoration.line({ class: "marked" }).range(doc.line(set.value).from));
  },
  provide: (field) => EditorView.decorations.from(field),
});

// What does not fit on a phone goes on below, further in than its line begins.
const hang = ViewPlugin.define((view) => ({
  lines: hanging(view),
  update({ docChanged, viewportChanged }) { if (docChanged || viewportChanged) this.lines = hanging(view); },
}), { decorations: (plugin) => plugin.lines });

function hanging({ state: { doc }, visibleRanges }) {
  const lines = [];
  for (const { from, to } of visibleRanges) for (let at = from; at <= to;) {
    const line = doc.lineAt(at), deep = line.text.search(/\S|$/) + 2;
    lines.push(Decoration.line({ attributes: { style: `--deep: ${deep}ch` } }).range(line.from));
    at = line.to + 1;
  }
  return Decoration.set(lines);
}

const narrow = matchMedia("(max-width: 40rem)");

/**
 * Puts an editor into `place`: `label` and `described` (an id) say what it is, `changed` hears of each
 * edit, `check` and `run` of their keys.
 */
export function open(place, { text, label, described, changed, check, run }) {
  const wrap = new Compartment(), wrapped = () => narrow.matches ? [EditorView.lineWrapping, hang] : [];
  const press = (act) => () => { act(); return true; };
  const view = new EditorView({
    parent: place,
    state: EditorState.create({
      doc: text,
      extensions: [
        keymap.of([{ key: "Mod-Enter", run: press(check) }, { key: "Shift-Enter", run: press(run) }]),
        lineNumbers(), history(), indentOnInput(), bracketMatching(), closeBrackets(), marked,
        indentUnit.of("    "), StreamLanguage.define(python), syntaxHighlighting(colours),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        wrap.of(wrapped()),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": described, autocorrect: "off", autocapitalize: "off", spellcheck: "false" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) changed(update.state.doc.toString()); }),
      ],
    }),
  });
  narrow.addEventListener("change", () => view.dispatch({ effects: wrap.reconfigure(wrapped()) }));
  const keys = { in: indentMore, out: indentLess, right: cursorCharRight };
  return {
    set: (source) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: source } }),
    mark: (line) => view.dispatch({ effects: mark.of(line), scrollIntoView: true }),
    type(key) { // one of `keys`, or text, as if it were typed
      if (keys[key]) return keys[key](view);
      const { from, to } = view.state.selection.main;
      const typed = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, key, () => view.state.update(view.state.replaceSelection(key))));
      return typed || view.dispatch(view.state.replaceSelection(key), { scrollIntoView: true, userEvent: "input.type" });
    },
    /** Takes the focus; the cursor where the code was clicked. */
    focus(at) {
      view.focus();
      if (at) view.dispatch({ selection: { anchor: view.posAtCoords(at, false) } });
    },
  };
}
