// Shows of the events only those of a kind, and with a text.

export function filterEvents() {
  const form = document.querySelector("form[data-filter]");
  if (!form) return;
  form.hidden = false;
  const items = [...document.querySelectorAll(".events > li")];
  offer(form.elements.kind, [...new Set(items.map((item) => item.dataset.kind))].sort());
  const kind = form.elements.kind.value;
  const text = form.elements.text.value.trim().toLowerCase();
  for (const item of items) {
    item.hidden = (kind && item.dataset.kind !== kind) || !item.textContent.toLowerCase().includes(text);
  }
  document.querySelector("[data-filtered]").hidden = items.some((item) => !item.hidden);
}

function offer(select, kinds) {
  const there = [...select.options].map((option) => option.value).filter(Boolean);
  const chosen = select.value;
  const all = chosen && !kinds.includes(chosen) ? [...kinds, chosen].sort() : kinds;
  if (all.join() === there.join()) return;
  select.replaceChildren(select.options[0], ...all.map((name) => new Option(name, name)));
  select.value = chosen;
}

for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => {
    if (event.target.closest?.("form[data-filter]")) filterEvents();
  });
}
document.addEventListener("submit", (event) => {
  if (event.target.matches("form[data-filter]")) event.preventDefault();
});
