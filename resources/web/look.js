// Language and colours as soon as they are chosen; a person who chooses with the keyboard stays at the choice.

const CHOSEN = "flnet.chosen"; // which choice led to this document

function paint(theme) {
  const root = document.documentElement;
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  document.querySelector("meta[name=color-scheme]").content = theme === "auto" ? "light dark" : theme;
}

async function choose(form, field) {
  const body = new URLSearchParams(new FormData(form));
  const language = form.elements.language.value;
  if (field.name === "theme") paint(field.value);
  try {
    await fetch(form.action, { method: "POST", body, redirect: "manual" }); // the answer sets the cookies
  } catch {
    return; // the banner says that the node is away
  }
  if (language === document.documentElement.lang) return;
  sessionStorage.setItem(CHOSEN, field.name);
  location.replace(form.elements.back.value);
}

document.addEventListener("change", (event) => {
  const form = event.target.form;
  if (form?.hasAttribute("data-look")) choose(form, event.target);
});
for (const form of document.querySelectorAll("form[data-look]")) {
  form.querySelector("button").hidden = true;
  const name = sessionStorage.getItem(CHOSEN);
  sessionStorage.removeItem(CHOSEN);
  if (!name) continue;
  form.closest("details").open = true;
  form.elements[name]?.focus();
}
