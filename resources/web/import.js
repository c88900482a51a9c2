// Imports data with a progress bar and a button to cancel. The form works without this file.

const QUARTER = 25; // per cent: screen readers are told no more often

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-import], form[data-bring]")) return;
  event.preventDefault();
  bring(form);
});

function chosen(form) {
  const inputs = [...form.querySelectorAll("input[type=file]")];
  return inputs.flatMap((input) => [...input.files]);
}

function bring(form) {
  const files = chosen(form);
  if (!files.length && form.dataset.none) return tell(form, form.dataset.none, true);
  const body = new FormData();
  for (const field of form.querySelectorAll("input[type=hidden]")) body.append(field.name, field.value);
  for (const file of files) body.append("file", file, file.webkitRelativePath || file.name);
  const asked = new XMLHttpRequest();
  const bar = form.querySelector("progress");
  let told = 0;
  busy(form, true);
  tell(form, "", false);
  asked.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return;
    const percent = Math.floor((100 * event.loaded) / event.total);
    bar.value = percent;
    const words = form.dataset.sending.replace("{percent}", `${percent} %`);
    form.querySelector("[data-state]").textContent = words;
    if (percent - told >= QUARTER && percent < 100) {
      told = percent;
      say(words);
    }
  });
  asked.upload.addEventListener("load", () => {
    bar.removeAttribute("value"); // how long the node checks is not known
    form.querySelector("[data-cancel]").hidden = true;
    form.querySelector("[data-state]").textContent = form.dataset.checking;
    say(form.dataset.checking);
  });
  asked.addEventListener("load", () => (form.dataset.import ? ended(form, asked) : led(form, asked)));
  asked.addEventListener("error", () => failed(form, form.dataset.lost));
  asked.addEventListener("abort", () => failed(form, form.dataset.cancelled));
  form.querySelector("[data-cancel]").onclick = () => asked.abort();
  const replace = form.elements.replace?.checked ? "?replace=true" : "";
  asked.open("POST", (form.dataset.import ?? form.getAttribute("action")) + replace);
  asked.send(body);
}

// The answer of these forms is another page, to which the node has led.
function led(form, asked) {
  if (asked.status === 200) return location.assign(asked.responseURL);
  failed(form, form.dataset.lost);
}

async function ended(form, asked) {
  let answer = {};
  try {
    answer = JSON.parse(asked.responseText);
  } catch {
    answer = { message: form.dataset.lost };
  }
  if (asked.status !== 200) return failed(form, answer.shown ?? answer.message);
  const rows = Object.values(answer.rows).reduce((sum, count) => sum + count, 0);
  let words = form.dataset.done.replace("{files}", answer.files).replace("{rows}", rows.toLocaleString());
  if (answer.aside) words += ` ${form.dataset.aside.replace("{aside}", answer.aside)}`;
  busy(form, false);
  await renew(words);
}

// The view as it is now, without a new page; what is said stands above it.
async function renew(words) {
  try {
    const answer = await fetch("/view/data", { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes);
  } catch {
    // The old view stays; what was taken in is told all the same.
  }
  notice(words, false);
  document.querySelector("main").focus();
}

function failed(form, words) {
  busy(form, false);
  tell(form, words, true);
  form.querySelector("[data-send]").focus();
}

function busy(form, is) {
  form.querySelector("progress").setAttribute("value", "0");
  form.querySelector("[data-state]").textContent = "";
  form.querySelector("[data-progress]").hidden = !is;
  form.querySelector("[data-cancel]").hidden = !is;
  form.querySelector("[data-send]").disabled = is;
  for (const input of form.querySelectorAll("input")) input.disabled = is;
}

function tell(form, words, isError) {
  form.querySelector("[data-told]")?.remove();
  if (!words) return;
  const line = document.createElement("p");
  line.className = `notice ${isError ? "bad" : "good"}`;
  line.setAttribute("role", isError ? "alert" : "status");
  line.dataset.told = "";
  line.textContent = words;
  form.append(line);
}

function notice(words, isError) {
  const line = document.createElement("p");
  line.className = `notice ${isError ? "bad" : "good"}`;
  line.setAttribute("role", isError ? "alert" : "status");
  line.textContent = words;
  document.getElementById("notices").replaceChildren(line);
}

function say(words) {
  document.getElementById("said").textContent = words;
}
