// The editor of the studio: CodeMirror 6 for the files of a world. `make.sh` makes the bundle of it.
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, highlightActiveLine, drawSelection } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting, bracketMatching, indentUnit } from "@codemirror/language";
import { yaml } from "@codemirror/lang-yaml";
import { lintGutter, setDiagnostics, lintKeymap, openLintPanel } from "@codemirror/lint";
import { searchKeymap, search } from "@codemirror/search";
import { tags } from "@lezer/highlight";

// Jinja with the tags of prompts around it.
const jinja = StreamLanguage.define({
  name: "jinja",
  startState: () => ({ inside: "" }),
  token(stream, state) {
    if (!state.inside) {
      if (stream.match("{#")) { if (!stream.match(/^.*?#\}/)) { state.inside = "#"; stream.skipToEnd(); } return "comment"; }
      const open = stream.match(/^\{[{%]-?/);
      if (open) { state.inside = open[0][1]; return "brace"; }
      if (stream.match(/^<\/?[A-Za-z][\w:-]*|^\/?>/)) return "tagName";
      stream.next();
      stream.match(/^[^{<>/]+/);
      return null;
    }
    if (state.inside === "#") { if (stream.match(/^.*?#\}/)) state.inside = ""; else stream.skipToEnd(); return "comment"; }
    if (stream.match(/^-?[%}]\}/)) { state.inside = ""; return "brace"; }
    if (stream.match(/^"(?:\\.|[^"])*"|^'(?:\\.|[^'])*'/)) return "string";
    if (stream.match(/^\d+(\.\d+)?/)) return "number";
    if (stream.match(/^(?:if|elif|else|endif|for|in|endfor|set|endset|block|endblock|extends|include|import|from|macro|endmacro|call|endcall|filter|endfilter|with|endwith|not|and|or|is|true|false|none|super)\b/)) return "keyword";
    if (stream.match(/^[\p{L}_][\p{L}\p{N}_]*/u)) return "variableName";
    stream.next();
    return null;
  },
});

const look = HighlightStyle.define([
  { tag: tags.comment, class: "t-comment" },
  { tag: [tags.keyword, tags.bool, tags.null], class: "t-keyword" },
  { tag: [tags.string, tags.content], class: "t-string" },
  { tag: [tags.number, tags.atom], class: "t-number" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName), tags.tagName], class: "t-name" },
  { tag: [tags.brace, tags.punctuation, tags.separator], class: "t-mark" },
]);

// In a shadow root CodeMirror puts its rules into `adoptedStyleSheets`, which a content policy without inline styles allows.
export function openEditor({ host, text, name, label, readOnly, phrases, styles, onChange }) {
  const root = host.attachShadow({ mode: "open" });
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = styles;
  root.append(sheet);
  const language = name.endsWith(".yaml") ? yaml() : name.endsWith(".j2") ? jinja : [];
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), indentUnit.of("  "),
        EditorView.lineWrapping, language, syntaxHighlighting(look), lintGutter(), search({ top: true }),
        // Tab leaves the editor, so that everyone can get out of it by keyboard.
        keymap.of([...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorState.phrases.of(phrases || {}),
        EditorState.readOnly.of(readOnly),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
        EditorView.domEventHandlers({
          // Chromium would give text that replaces a selection the style of that selection, as an inline style.
          beforeinput(event, view) {
            if (event.inputType !== "insertText" || event.isComposing || view.state.selection.main.empty || event.data === null) return false;
            if (!view.state.readOnly) view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
            event.preventDefault();
            return true;
          },
        }),
        EditorView.updateListener.of((update) => { if (update.docChanged) onChange(update.state.doc.toString()); }),
      ],
    }),
  });
  return {
    get text() { return view.state.doc.toString(); },
    showFaults(faults) {
      const doc = view.state.doc;
      const found = faults.map((each) => {
        const line = doc.line(Math.min(Math.max(1, each.line), doc.lines));
        const from = Math.min(line.from + Math.max(0, each.column - 1), line.to);
        return { from, to: Math.max(from, line.to), severity: each.severity, message: each.message };
      });
      view.dispatch(setDiagnostics(view.state, found));
    },
    goTo(number) {
      const line = view.state.doc.line(Math.min(Math.max(1, number), view.state.doc.lines));
      view.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
      view.focus();
    },
  };
}
