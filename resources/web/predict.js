// Drawing, dropping files, and answers without a new page. The form works without this file; the answer is the same
// page as without it, of which only the part with the result is put in place.

const form = document.querySelector("form[data-ask]");
if (form) {
  const drawing = form.querySelector("[data-draw]");
  form.addEventListener("submit", (event) => {
    if (event.submitter?.name === "as") return; // a file is the answer, which the browser keeps
    event.preventDefault();
    ask(new FormData(form));
  });
  for (const place of form.querySelectorAll("[data-drop]")) takeFiles(place);
  if (drawing) takeStrokes(drawing);
}

let newest = 0;

// Several answers may be on their way; only the one to the newest question is shown.
async function ask(fields) {
  const mine = (newest += 1);
  const shown = document.getElementById("result");
  shown.classList.add("busy-now");
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const result = page.getElementById("result") ?? fault(page.querySelector("[role=alert]")?.textContent);
    if (mine === newest) show(shown, result);
  } catch {
    if (mine === newest) shown.replaceChildren(...fault(form.dataset.lost).childNodes);
  }
  if (mine === newest) shown.classList.remove("busy-now");
}

// Screen readers are told what won, and not every bar; a fault is an alert, which they read by themselves.
function show(place, result) {
  place.replaceChildren(...result.childNodes);
  const said = [...place.querySelectorAll("[data-said]")].map((one) => one.textContent);
  document.getElementById("said").textContent = said.join(", ");
}

function fault(words) {
  const around = document.createElement("div");
  const line = document.createElement("p");
  line.className = "notice bad";
  line.setAttribute("role", "alert");
  line.textContent = words || form.dataset.lost;
  around.append(line);
  return around;
}

function takeFiles(place) {
  const input = place.querySelector("input[type=file]");
  input.addEventListener("change", () => {
    if (!input.files.length) return;
    preview(input.files[0]);
    ask(new FormData(form));
  });
  for (const kind of ["dragenter", "dragover"]) {
    place.addEventListener(kind, (event) => {
      event.preventDefault();
      place.classList.add("over");
    });
  }
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    input.files = event.dataTransfer.files;
    preview(input.files[0]);
    ask(new FormData(form));
  });
}

// The picture as it was chosen, small; what is no picture is told by the node.
async function preview(file) {
  const label = form.querySelector("[data-preview]");
  if (!label) return;
  form.querySelector("canvas.preview")?.remove();
  const place = document.createElement("canvas");
  place.className = "preview";
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", label.dataset.preview);
  try {
    const picture = await createImageBitmap(file);
    const scale = 280 / Math.max(picture.width, picture.height);
    place.width = Math.max(1, Math.round(picture.width * scale));
    place.height = Math.max(1, Math.round(picture.height * scale));
    place.getContext("2d").drawImage(picture, 0, 0, place.width, place.height);
    label.after(place);
  } catch {
    // There is nothing to show.
  }
}

function takeStrokes(drawing) {
  const canvas = drawing.querySelector("canvas");
  const pixels = drawing.querySelector("[name=pixels]");
  const file = form.querySelector("[name=file]");
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  let last = null;
  drawing.hidden = false;
  clear();

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    line(last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    for (const part of event.getCoalescedEvents?.() ?? [event]) line(at(part));
    line(at(event));
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, () => {
      if (!last) return;
      last = null;
      predict();
    });
  }
  drawing.querySelector("[data-clear]").addEventListener("click", clear);

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * canvas.width) / box.width,
      ((event.clientY - box.top) * canvas.height) / box.height];
  }

  function line(to) {
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...to);
    pen.stroke();
    last = to;
  }

  function clear() {
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    Object.assign(pen, { strokeStyle: "#fff", lineWidth: 28, lineCap: "round", lineJoin: "round" });
    pixels.value = "";
  }

  function predict() {
    const picture = pen.getImageData(0, 0, canvas.width, canvas.height);
    const grey = asMnist(picture, Number(drawing.dataset.draw));
    if (!grey) return;
    pixels.value = Array.from(grey).join(",");
    file.value = ""; // what was drawn last is meant, not the file that was chosen before
    ask(new FormData(form));
  }
}

// A drawing as MNIST's digits were made (LeCun et al. 1998): without the empty margin it is scaled, its proportions
// kept, to fit a square of 20 of 28 pixels, and put so that its centre of mass is the centre of the picture.
function asMnist(picture, side) {
  const ink = { width: picture.width, height: picture.height, at: (x, y) => picture.data[4 * (y * picture.width + x)] };
  const box = inked(ink);
  if (!box) return null;
  const scale = Math.max(box.width, box.height) / Math.round((side * 20) / 28);
  const width = Math.max(1, Math.round(box.width / scale));
  const height = Math.max(1, Math.round(box.height / scale));
  const small = averaged(ink, box, width, height);
  let mass = 0, right = 0, down = 0;
  small.forEach((value, place) => {
    mass += value;
    right += value * (place % width);
    down += value * Math.floor(place / width);
  });
  const centre = (side - 1) / 2;
  const left = within(Math.round(centre - right / mass), side - width);
  const top = within(Math.round(centre - down / mass), side - height);
  const out = new Uint8Array(side * side);
  small.forEach((value, place) => {
    out[(top + Math.floor(place / width)) * side + left + (place % width)] = Math.round(value);
  });
  return out;
}

function within(place, most) {
  return Math.min(Math.max(place, 0), most);
}

function inked(ink) {
  let left = ink.width, top = ink.height, right = -1, bottom = -1;
  for (let y = 0; y < ink.height; y += 1) {
    for (let x = 0; x < ink.width; x += 1) {
      if (ink.at(x, y) < 32) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  return right < 0 ? null : { left, top, width: right - left + 1, height: bottom - top + 1 };
}

// Each small pixel is the mean of the large ones under it.
function averaged(ink, box, width, height) {
  const small = new Float64Array(width * height);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      const [x0, x1] = span(column, width, box.left, box.width);
      const [y0, y1] = span(row, height, box.top, box.height);
      let sum = 0;
      for (let y = y0; y < y1; y += 1) for (let x = x0; x < x1; x += 1) sum += ink.at(x, y);
      small[row * width + column] = sum / ((x1 - x0) * (y1 - y0));
    }
  }
  return small;
}

function span(place, places, start, length) {
  const from = start + Math.floor((place * length) / places);
  return [from, Math.max(from + 1, start + Math.floor(((place + 1) * length) / places))];
}
