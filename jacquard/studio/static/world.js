// The editor of the room World. Without this script the page has a plain field, which saves as well.
"use strict";

const edit = document.getElementById("edit");
if (edit) {
  const field = edit.elements.text;
  const host = document.getElementById("editor");
  let waiting = 0;
  let asked = 0;

  const editor = jacquardEditor.openEditor({
    host,
    text: field.value,
    name: edit.elements.file.value,
    label: host.dataset.label,
    styles: host.dataset.styles,
    readOnly: "locked" in field.dataset,
    onChange(text) {
      field.value = text;
      clearTimeout(waiting);
      waiting = setTimeout(lint, 400);
    },
  });
  field.hidden = true;

  const readFaults = () =>
    [...document.querySelectorAll("#faults [data-own]")].map((each) => ({
      line: Number(each.dataset.line),
      column: Number(each.dataset.column),
      severity: each.dataset.severity,
      message: each.querySelector(".what").textContent,
    }));

  function lint() {
    const number = ++asked;
    const values = Object.fromEntries(new FormData(edit));
    htmx.ajax("POST", edit.dataset.lint, { target: "#faults", values }).then(() => {
      if (number === asked) editor.showFaults(readFaults());
    });
  }

  document.getElementById("faults").addEventListener("click", (event) => {
    const own = event.target.closest("a") && event.target.closest("[data-own]");
    if (!own) return;
    event.preventDefault();
    editor.goTo(Number(own.dataset.line));
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "faults") editor.showFaults(readFaults());
  });
  // A finding of another file leads to a place of this one: the line is in the address.
  const line = Number(location.hash.slice(2));
  if (/^#L\d+$/.test(location.hash)) editor.goTo(line);
  if (document.querySelector("#faults [data-line]")) editor.showFaults(readFaults());
}
