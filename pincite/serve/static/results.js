// Nothing here is needed to read results: it copies links and quotations, and shows an answer that comes later.
"use strict";
const toast = document.querySelector(".toast");

// ---------------------------------------------------------------- copying

async function copied(text) {
  if (window.isSecureContext && navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { /* refused: the older way may be allowed */ }
  }
  const field = document.createElement("textarea");
  const before = document.activeElement;
  field.value = text;
  field.className = "unseen";
  field.readOnly = true;
  document.body.append(field);
  field.select();
  let done = false;
  try { done = document.execCommand("copy"); } catch { /* refused too */ }
  field.remove();
  before?.focus({ preventScroll: true });
  return done;
}

let clearing;
async function copy(button) {
  const { kind, copy: given } = button.dataset;
  const text = kind === "link" ? new URL(given, location.href).href : given;
  if (!(await copied(text))) {
    window.prompt(toast.dataset.failed, text);
    return;
  }
  document.querySelectorAll("button.done").forEach((other) => other.classList.remove("done"));
  button.classList.add("done");
  toast.textContent = toast.dataset[kind];
  clearTimeout(clearing);
  clearing = setTimeout(() => {
    toast.textContent = "";
    button.classList.remove("done");
  }, 2500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (button) copy(button);
});

// By the places of the keys, so that they are the same keys on every keyboard.
const KEYS = { KeyC: "quote", KeyL: "link" };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.code]) return;
  const hit = event.target.closest(".hit") ?? event.target.closest(".hits > li")?.querySelector(".hit");
  const button = hit?.querySelector(`button[data-kind=${KEYS[event.code]}]`);
  if (button) {
    event.preventDefault();
    copy(button);
  }
});

// ---------------------------------------------------------------- an answer that comes later

async function follow(place) {
  const reply = await fetch(place.dataset.results, { headers: { Accept: "text/event-stream" } });
  if (!reply.ok || !reply.body) throw new Error(`status ${reply.status}`);
  const decoder = new TextDecoder();
  let text = "";
  for (const reader = reply.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    events.forEach((each) => show(place, each));
  }
}

function show(place, event) {
  const [, name, data] = event.match(/^event: (\w+)\ndata: (.*)$/) ?? [];
  if (!name) return; // a sign that the server is still at work
  const told = JSON.parse(data);
  const waiting = place.querySelector("[data-part=answer]");
  if (name === "error") {
    waiting.replaceChildren(Object.assign(document.createElement("p"), { textContent: told.message, lang: "en" }));
    return;
  }
  // The server made this markup of escaped texts, by the templates of its pages.
  place.querySelector(`[data-part=${name}]`).outerHTML = told.html;
  if (name === "passages") {
    const working = waiting.querySelector("span");
    if (place.querySelector(".hits > li")) working.textContent = waiting.dataset.then;
    else waiting.hidden = true;
  }
}

const coming = document.querySelector("[data-results]");
if (coming) follow(coming).catch(() => location.replace(coming.dataset.whole));
