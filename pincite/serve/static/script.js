// Nothing here is needed: it shows that a search runs, brings the first mark into view, unfolds the contents beside a
// wide page, and lets keys turn pages.
"use strict";
document.documentElement.classList.add("js");

const busy = (is) => document.body.classList.toggle("busy", is);
document.addEventListener("submit", (event) => busy(event.target.matches("[role=search]")));
document.addEventListener("click", (event) => {
  const plain = !event.button && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (plain && event.target.closest('a[href^="/?"]')) busy(true);
});
window.addEventListener("pageshow", () => busy(false)); // the page may be shown again as it was left

const contents = document.querySelector("details.contents");
if (contents && matchMedia("(min-width: 60.01rem)").matches) contents.open = true;

const reader = document.querySelector(".reader");
const marked = ["now", "sentence", "passage"].map((kind) => reader?.querySelector(`.sheet .${kind}`)).find(Boolean);
for (const inner of reader?.querySelectorAll(".places .now, .beside .passage mark") ?? []) {
  const box = inner.closest(".places, .passage");
  box.scrollTop = inner.offsetTop - box.offsetTop - box.clientHeight / 3;
}
if (marked && !location.hash) {
  const { top, bottom } = marked.getBoundingClientRect();
  if (top < 0 || bottom > innerHeight) marked.scrollIntoView({ block: "center" });
}

// Feedback is sent without leaving the page.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form.feedback");
  if (!form) return;
  event.preventDefault();
  const said = form.querySelector("[role=status]"), buttons = form.querySelectorAll("button");
  const body = new URLSearchParams(new FormData(form, event.submitter));
  for (const button of buttons) button.disabled = true;
  let taken = false;
  try {
    taken = (await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } })).ok;
  } catch { /* the server is not there */ }
  said.textContent = taken ? said.dataset.noted : said.dataset.failed;
  for (const button of buttons) {
    button.disabled = false;
    button.ariaPressed = String(taken && button === event.submitter);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, select, textarea, [contenteditable]");
  if (typing) return;
  const links = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };
  if (event.key === "/") {
    const field = document.querySelector("input[name=q]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  } else if (links[event.key] && !event.target.closest("[tabindex]")) {
    const link = document.querySelector(links[event.key]);
    if (link) location.assign(link.href);
  }
});

// A list of choices closes by Escape, and when one looks elsewhere.
const close = (but) => document.querySelectorAll(".facets details[open]").forEach((it) => { if (it !== but) it.open = false; });
document.addEventListener("click", (event) => close(event.target.closest(".facets details")));
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && document.querySelector(".facets details[open]");
  if (open) { open.open = false; open.querySelector("summary").focus(); }
});
