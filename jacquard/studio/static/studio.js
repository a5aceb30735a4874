// What neither a link nor htmx can do: the place of a click in a prompt, copying, notices of faults.
"use strict";

const notice = () => document.getElementById("notice");

function say(words) {
  const shown = document.createElement("p");
  shown.textContent = words;
  notice().replaceChildren(shown);
  setTimeout(() => shown.remove(), 6000);
}

// A click on a sentence of a block asks where it comes from. Offsets count characters, not halves of them.
function findPlace(event, text) {
  const caret = document.caretPositionFromPoint
    ? document.caretPositionFromPoint(event.clientX, event.clientY)
    : document.caretRangeFromPoint(event.clientX, event.clientY);
  const node = caret && (caret.offsetNode || caret.startContainer);
  if (!node || !text.contains(node) || node.nodeType !== Node.TEXT_NODE) return null;
  return { node, offset: caret.offset ?? caret.startOffset };
}

function markSentence(node, offset) {
  const words = node.data;
  const ends = /[.!?。！？…\n]/;
  let start = offset;
  while (start > 0 && !ends.test(words[start - 1])) start -= 1;
  let end = offset;
  while (end < words.length && !ends.test(words[end])) end += 1;
  const range = document.createRange();
  range.setStart(node, start);
  range.setEnd(node, Math.min(end + 1, words.length));
  if (window.CSS && CSS.highlights) CSS.highlights.set("asked", new Highlight(range));
  return start;
}

document.addEventListener("click", (event) => {
  const text = event.target.closest("pre[data-at]");
  if (text && getSelection().isCollapsed) {
    const place = findPlace(event, text);
    if (!place) return;
    const start = markSentence(place.node, place.offset);
    const at = Math.min(Number(text.dataset.at) + [...place.node.data.slice(0, start)].length, Number(text.dataset.end) - 1);
    const chosen = document.querySelector(".block.chosen");
    if (chosen) chosen.classList.remove("chosen");
    text.closest(".block").classList.add("chosen");
    const address = new URL(location.href);
    address.searchParams.set("at", at);
    history.replaceState(history.state, "", address);
    htmx.ajax("GET", address.pathname + address.search, { target: "#detail" });
  }
  const copier = event.target.closest("[data-copy]");
  if (copier) {
    const source = document.getElementById(copier.dataset.copy);
    navigator.clipboard.writeText(source.value ?? source.textContent).then(() => say(notice().dataset.copied));
  }
});

// While a client talks through the service, the newest turns of a timeline appear by themselves.
const streamed = document.querySelector("[data-events]");
if (streamed) {
  const showNewest = () => document.querySelector("#chat > .exchange:last-of-type")?.scrollIntoView({ block: "end" });
  if (!location.search) showNewest();
  const events = new EventSource(streamed.dataset.events);
  let waiting = 0;
  events.addEventListener("Persisted", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (!document.querySelector("#chat details[open]")) {
        htmx.ajax("GET", location.pathname + location.search, { target: "#chat", select: "#chat", swap: "outerHTML" }).then(showNewest);
      }
    }, 200);
  });
  addEventListener("pagehide", () => events.close());
}

// Times are those of the reader's clock.
function showTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    each.textContent = new Date(each.dateTime).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  }
}

showTimes(document);
document.addEventListener("htmx:load", (event) => showTimes(event.detail.elt));

// A checkbox that stands for all whose names begin alike.
document.addEventListener("change", (event) => {
  const begin = event.target.dataset.all;
  if (begin) for (const each of event.target.form.elements) if (each.name.startsWith(begin)) each.checked = event.target.checked;
});

// On a narrow page a part that was asked for may stand out of sight.
document.addEventListener("htmx:afterSwap", (event) => {
  const shown = event.target.getBoundingClientRect();
  if (["detail", "result"].includes(event.target.id) && shown.top > innerHeight - 80) event.target.scrollIntoView();
});

// Files that are dropped or chosen go to the service twice: for the report of what becomes of them, and when the reader agrees.
const zone = document.querySelector("[data-drop]");
let chosen = [];

async function readEntry(entry, path, found) {
  if (entry.isFile) {
    const file = await new Promise((done, fail) => entry.file(done, fail));
    found.push({ name: path + file.name, file });
  } else if (entry.isDirectory) {
    const reader = entry.createReader();
    for (let part = [1]; part.length; ) {
      part = await new Promise((done, fail) => reader.readEntries(done, fail));
      for (const each of part) await readEntry(each, `${path}${entry.name}/`, found);
    }
  }
  return found;
}

function encodeFile({ name, file }) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done({ name, content: reader.result.slice(reader.result.indexOf(",") + 1) });
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}

async function sendFiles(isDryRun) {
  const report = document.getElementById("report");
  report.textContent = zone.dataset.reading;
  try {
    const files = await Promise.all(chosen.map(encodeFile));
    const sent = { files, dry_run: isDryRun };
    for (const each of zone.querySelectorAll("input[name]")) sent[each.name] = each.type === "checkbox" ? each.checked : each.value;
    const headers = { "content-type": "application/json", "hx-request": "true" };
    const answer = await fetch(zone.dataset.drop, { method: "POST", headers, body: JSON.stringify(sent) });
    const text = await answer.text();
    if (answer.status === 413) {
      report.textContent = zone.dataset.tooMany;
    } else {
      report.innerHTML = text;
      report.focus();
    }
  } catch {
    report.textContent = notice().dataset.failed;
  }
}

function takeChosen(found) {
  chosen = found;
  if (found.length) sendFiles(true);
}

if (zone) {
  zone.addEventListener("submit", (event) => event.preventDefault());
  zone.addEventListener("change", (event) => {
    if (event.target.files) takeChosen([...event.target.files].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
    else if (chosen.length) sendFiles(true);
  });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || zone.classList.remove("over"));
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (zone.closest("details")) zone.closest("details").open = true;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const files = [...event.dataTransfer.files];
    const found = [];
    for (const [place, entry] of entries.entries()) {
      if (entry) await readEntry(entry, "", found);
      else if (files[place]) found.push({ name: files[place].name, file: files[place] });
    }
    takeChosen(found);
  });
  document.addEventListener("click", (event) => event.target.closest("[data-take]") && sendFiles(false));
}

// A link or a button with a key of its own.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  document.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`)?.click();
});

document.addEventListener("htmx:sendError", () => say(notice().dataset.failed));

// The newest turns of the room Try stand at the end of a box of their own.
function showEnd() {
  const box = document.querySelector(".play #chat");
  if (box) box.scrollTop = box.scrollHeight;
}

showEnd();
document.addEventListener("htmx:afterSettle", showEnd);

// Sends a turn to the model server, and shows the reply while it arrives. Stopping keeps what came.
let sending = null;

async function sendTurn(button) {
  const form = button.form ?? document.getElementById("trial");
  const sent = new URLSearchParams(new FormData(form));
  const again = button.dataset.again;
  if (again) sent.delete("message");
  if (again) sent.set("again", again);
  if (!sent.get("model")) sent.set("model", document.querySelector("#trial [name=model]").value);
  const box = document.getElementById("reply");
  const text = box.querySelector("p");
  text.textContent = "";
  box.hidden = false;
  box.scrollIntoView({ block: "nearest" });
  sending = new AbortController();
  let isDone = false;
  try {
    const answer = await fetch(button.dataset.send, { method: "POST", body: sent, headers: { "hx-request": "true" }, signal: sending.signal });
    if (!answer.ok) notice().innerHTML = await answer.text();
    else {
      await readReply(answer, text);
      isDone = true;
    }
  } catch (error) {
    isDone = error.name === "AbortError";
    if (!isDone) say(notice().dataset.failed);
  }
  sending = null;
  if (isDone && !again) document.getElementById("message").value = "";
  // The service keeps a stopped reply when it notices that nobody listens any more.
  setTimeout(async () => {
    await htmx.ajax("GET", location.pathname, { target: "#chat", swap: "outerHTML" });
    box.hidden = true;
  }, 300);
}

async function readReply(answer, text) {
  const isStream = (answer.headers.get("content-type") || "").startsWith("text/event-stream");
  if (!isStream) {
    const whole = answer.status === 204 ? {} : await answer.json();
    text.textContent = whole.choices?.[0]?.message?.content ?? "";
    return;
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (held + part.value).split(/\r\n|\n|\r/);
    held = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:") || line.includes("[DONE]")) continue;
      const chunk = JSON.parse(line.slice(5));
      if (chunk.error) say(String(chunk.error.message ?? chunk.error));
      text.textContent += chunk.choices?.[0]?.delta?.content ?? "";
    }
  }
}

document.addEventListener("click", (event) => {
  const sender = event.target.closest("[data-send]");
  if (sender && !sending && (sender.dataset.again || sender.form.reportValidity())) sendTurn(sender);
  if (event.target.closest("[data-stop]")) sending?.abort();
});
