// Nothing here is needed: it shows that a search runs, brings the first mark into view, and lets keys turn pages.
"use strict";
document.documentElement.classList.add("js");

const busy = (is) => document.body.classList.toggle("busy", is);
document.addEventListener("submit", (event) => busy(event.target.matches("[role=search]")));
document.addEventListener("click", (event) => {
  const plain = !event.button && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (plain && event.target.closest('a[href^="/?"]')) busy(true);
});
window.addEventListener("pageshow", () => busy(false)); // the page may be shown again as it was left

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
