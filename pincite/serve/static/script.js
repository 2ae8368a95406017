// Nothing here is needed: it brings the first mark into view, and lets keys turn pages.
"use strict";
const marked = document.querySelector("rect.sentence, mark.sentence, rect.passage, mark.passage");
if (marked && document.querySelector(".reader")) marked.scrollIntoView({ block: "center" });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, select, textarea, [contenteditable]");
  if (typing) return;
  const links = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };
  if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
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
