"use strict";
// A small network in plain JavaScript, its inputs and its answers. Nothing is loaded and nothing is sent: the page's
// policy forbids both. Names come from data and from other people: they are text here, never markup.

const TEXTS = {
  en: {
    input: "Input", result: "Prediction", predict: "Predict", clear: "Clear the drawing", none: "none of them",
    draw: "Draw with the mouse, a finger or a pen. With the keyboard, choose a picture below.",
    drawing: "Drawing area", picture: "Picture (PNG or JPEG); it is squeezed to {size} pixels",
    seen: "The picture as the model sees it", row: "Row {number}", gaps: "A field may stay empty if its value is missing.",
    rows: "Rows of {count} numbers, with tabs, semicolons or commas between them; a first row may name the columns",
    nothing: "Nothing has been handed in yet.", classes: "Classes",
    scores: "These are scores, not probabilities: the largest wins.",
    made: "Round {round}, model {digest}, accuracy {accuracy}. It was trained with flnet.",
    madeUntrained: "Untrained model {digest}. It was made with flnet.",
    foot: "This page computes by itself and works offline. What you enter stays in it.",
    empty: "{column} is empty; expected a number", noWord: "{column} is empty; expected one of the words",
    noNumber: "{column} is {value}; expected a number such as 3.5", range: "{column} is {value}; expected {low} to {high}",
    cells: "row {number} has {got} cells; expected {count}", lacks: "the first row lacks the column {column}",
    noRows: "there is no input yet: paste rows", tooMany: "at most {most} rows are predicted at once", twice: "the first row names a column twice",
    unknownWord: "{column} is {value}; expected one of {words}", unreadable: "this file is no picture that can be read",
    any: "any number", cell: "row {row}, {column}",
  },
  es: {
    input: "Entrada", result: "Predicción", predict: "Predecir", clear: "Borrar el dibujo", none: "ninguna de ellas",
    draw: "Dibuje con el ratón, un dedo o un lápiz. Con el teclado, elija una imagen abajo.",
    drawing: "Zona de dibujo", picture: "Imagen (PNG o JPEG); se ajusta a {size} píxeles",
    seen: "La imagen tal como la ve el modelo", row: "Fila {number}",
    gaps: "Un campo puede quedar vacío si falta su valor.",
    rows: "Filas de {count} números, con tabuladores, puntos y comas o comas entre ellos; una primera fila puede nombrar las columnas",
    nothing: "Todavía no se ha introducido nada.", classes: "Clases",
    scores: "Son puntuaciones, no probabilidades: gana la mayor.",
    made: "Ronda {round}, modelo {digest}, exactitud {accuracy}. Se entrenó con flnet.",
    madeUntrained: "Modelo sin entrenar {digest}. Se hizo con flnet.",
    foot: "Esta página calcula por sí sola y funciona sin conexión. Lo que introduzca se queda en ella.",
    empty: "{column} está vacía; se esperaba un número", noWord: "{column} está vacía; se esperaba una de las palabras",
    noNumber: "{column} es {value}; se esperaba un número como 3.5", range: "{column} es {value}; se esperaba de {low} a {high}",
    cells: "la fila {number} tiene {got} celdas; se esperaban {count}", lacks: "a la primera fila le falta la columna {column}",
    noRows: "todavía no hay entrada: pegue filas", tooMany: "como máximo se predicen {most} filas a la vez", twice: "la primera fila nombra una columna dos veces",
    unknownWord: "{column} es {value}; se esperaba una de {words}", unreadable: "este archivo no es una imagen que se pueda leer",
    any: "cualquier número", cell: "fila {row}, {column}",
  },
};
const LANGUAGE = (navigator.languages || [navigator.language]).map((tag) => tag.slice(0, 2)).find((tag) => tag in TEXTS) || "en";
const t = (name, values = {}) => TEXTS[LANGUAGE][name].replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
const MODEL = JSON.parse(document.getElementById("model").textContent);
const ABSENT = new Set(["", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"]);
const MOST_FIELDS = 60, MOST_ROWS = 1000, MOST_BARS = 20, DRAWN_SIDE = 28;

// The network. A tensor is {shape, data}; each layer takes tensors and attributes and gives one.

const count = (shape) => shape.reduce((product, side) => product * side, 1);

function constant(stored) {
  if (stored.integers) return { shape: [stored.integers.length], data: stored.integers };
  const bytes = Uint8Array.from(atob(stored.floats), (sign) => sign.charCodeAt(0));
  return { shape: stored.shape, data: new Float32Array(bytes.buffer) }; // little-endian, as every machine with a browser is
}

function each(x, change) {
  return { shape: x.shape, data: Float32Array.from(x.data, change) };
}

// The second tensor is as the last axes of the first, and is repeated along the others.
function paired(x, other, change) {
  const length = other.data.length;
  return each(x, (value, place) => change(value, other.data[place % length]));
}

function reshaped(x, sides) {
  const known = sides.reduce((product, side) => (side < 0 ? product : product * side), 1);
  return { shape: sides.map((side) => (side < 0 ? x.data.length / known : side)), data: x.data };
}

function transposed(x, perm) {
  const steps = x.shape.map((_, axis) => count(x.shape.slice(axis + 1)));
  const shape = perm.map((axis) => x.shape[axis]);
  const data = new Float32Array(x.data.length);
  const at = new Array(shape.length).fill(0);
  for (let place = 0; place < data.length; place += 1) {
    data[place] = x.data[at.reduce((sum, index, axis) => sum + index * steps[perm[axis]], 0)];
    for (let axis = shape.length - 1; axis >= 0 && (at[axis] += 1) === shape[axis]; axis -= 1) at[axis] = 0;
  }
  return { shape, data };
}

function convolved(x, weight, bias, { pads, strides }) {
  const [images, channels, height, width] = x.shape, [filters, , high, wide] = weight.shape;
  const rows = Math.floor((height + pads[0] + pads[2] - high) / strides[0]) + 1;
  const columns = Math.floor((width + pads[1] + pads[3] - wide) / strides[1]) + 1;
  const data = new Float32Array(images * filters * rows * columns);
  let place = 0;
  for (let image = 0; image < images; image += 1) for (let filter = 0; filter < filters; filter += 1) {
    for (let row = 0; row < rows; row += 1) for (let column = 0; column < columns; column += 1) {
      let sum = bias ? bias.data[filter] : 0;
      const top = row * strides[0] - pads[0], left = column * strides[1] - pads[1];
      for (let channel = 0; channel < channels; channel += 1) for (let y = 0; y < high; y += 1) {
        if (top + y < 0 || top + y >= height) continue;
        const from = ((image * channels + channel) * height + top + y) * width + left;
        const by = ((filter * channels + channel) * high + y) * wide;
        for (let x0 = 0; x0 < wide; x0 += 1) {
          if (left + x0 >= 0 && left + x0 < width) sum += x.data[from + x0] * weight.data[by + x0];
        }
      }
      data[place++] = sum;
    }
  }
  return { shape: [images, filters, rows, columns], data };
}

function normalised(x, [scale, shift, mean, variance], { epsilon }) {
  const size = count(x.shape.slice(2)), channels = x.shape[1];
  return each(x, (value, place) => {
    const c = Math.floor(place / size) % channels;
    return ((value - mean.data[c]) / Math.sqrt(variance.data[c] + epsilon)) * scale.data[c] + shift.data[c];
  });
}

function pooled(x, { kernel_shape: [high, wide] }) {
  const [images, channels, height, width] = x.shape;
  const rows = Math.floor(height / high), columns = Math.floor(width / wide);
  const data = new Float32Array(images * channels * rows * columns);
  let place = 0;
  for (let plane = 0; plane < images * channels; plane += 1) {
    for (let row = 0; row < rows; row += 1) for (let column = 0; column < columns; column += 1) {
      let most = -Infinity;
      for (let y = 0; y < high; y += 1) for (let x0 = 0; x0 < wide; x0 += 1) {
        most = Math.max(most, x.data[(plane * height + row * high + y) * width + column * wide + x0]);
      }
      data[place++] = most;
    }
  }
  return { shape: [images, channels, rows, columns], data };
}

function averaged(x) {
  const size = count(x.shape.slice(2)), planes = x.shape[0] * x.shape[1];
  const data = Float32Array.from({ length: planes }, (_, plane) => {
    let sum = 0;
    for (let place = 0; place < size; place += 1) sum += x.data[plane * size + place];
    return sum / size;
  });
  return { shape: [x.shape[0], x.shape[1], ...x.shape.slice(2).map(() => 1)], data };
}

function dense(x, weight, bias) {
  const [rows, inputs] = x.shape, outputs = weight.shape[1];
  const data = new Float32Array(rows * outputs);
  for (let row = 0; row < rows; row += 1) {
    const sums = Float64Array.from({ length: outputs }, (_, output) => bias.data[output]);
    for (let input = 0; input < inputs; input += 1) {
      const value = x.data[row * inputs + input];
      if (value !== 0) for (let output = 0; output < outputs; output += 1) sums[output] += value * weight.data[input * outputs + output];
    }
    data.set(sums, row * outputs);
  }
  return { shape: [rows, outputs], data };
}

function softmax(x) {
  const last = x.shape[x.shape.length - 1], data = new Float32Array(x.data.length);
  for (let start = 0; start < data.length; start += last) {
    const row = x.data.subarray(start, start + last);
    const most = row.reduce((one, other) => Math.max(one, other), -Infinity);
    const powers = Array.from(row, (value) => Math.exp(value - most));
    const sum = powers.reduce((one, other) => one + other, 0);
    data.set(powers.map((power) => power / sum), start);
  }
  return { shape: x.shape, data };
}

const LAYERS = {
  Sub: ([x, other]) => paired(x, other, (a, b) => a - b),
  Div: ([x, other]) => paired(x, other, (a, b) => a / b),
  IsNaN: ([x]) => each(x, (value) => Number(Number.isNaN(value))),
  Where: ([missing, instead, x]) => paired(x, instead, (a, b) => (Number.isNaN(a) ? b : a)), // `missing` is IsNaN of x
  Reshape: ([x, sides]) => reshaped(x, sides.data),
  Flatten: ([x]) => reshaped(x, [x.shape[0], count(x.shape.slice(1))]),
  Transpose: ([x], { perm }) => transposed(x, perm),
  Conv: ([x, weight, bias], attributes) => convolved(x, weight, bias, attributes),
  BatchNormalization: ([x, ...statistics], attributes) => normalised(x, statistics, attributes),
  MaxPool: ([x], attributes) => pooled(x, attributes),
  GlobalAveragePool: ([x]) => averaged(x),
  Gemm: ([x, weight, bias]) => dense(x, weight, bias),
  Relu: ([x]) => each(x, (value) => Math.max(value, 0)),
  Sigmoid: ([x]) => each(x, (value) => 1 / (1 + Math.exp(-value))),
  Softmax: ([x]) => softmax(x),
  Identity: ([x]) => x,
};
const CONSTANTS = Object.fromEntries(Object.entries(MODEL.constants).map(([name, stored]) => [name, constant(stored)]));

// The model's numbers for each input: an array of rows.
function run(rows) {
  const shape = [rows.length, ...MODEL.inputs.shape];
  const tensors = { ...CONSTANTS, [MODEL.input]: { shape, data: Float32Array.from(rows.flatMap((row) => Array.from(row))) } };
  for (const { layer, inputs, output, attributes } of MODEL.layers) {
    tensors[output] = LAYERS[layer](inputs.map((name) => tensors[name]), attributes);
  }
  const { shape: [, width], data } = tensors[MODEL.output];
  return rows.map((_, row) => Array.from(data.subarray(row * width, (row + 1) * width)));
}

// Pictures as flnet reads them: squeezed by Lanczos resampling in the same whole numbers as Pillow.

function lanczos(x) {
  const sinc = (value) => (value === 0 ? 1 : Math.sin(value * Math.PI) / (value * Math.PI));
  return x > -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

function weightsOf(from, to) {
  const scale = from / to, stretch = Math.max(scale, 1), reach = 3 * stretch;
  return Array.from({ length: to }, (_, place) => {
    const centre = (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - reach + 0.5)), end = Math.min(from, Math.trunc(centre + reach + 0.5));
    const weights = Array.from({ length: end - first }, (_, step) => lanczos((first + step - centre + 0.5) / stretch));
    const sum = weights.reduce((one, other) => one + other, 0);
    return { first, weights: weights.map((weight) => Math.trunc((weight / sum) * 2 ** 22 + (weight < 0 ? -0.5 : 0.5))) };
  });
}

// Squeezes the columns of lines of bytes: (height, width, channels) to (height, to, channels).
function squeezed(data, height, width, channels, to) {
  if (width === to) return data;
  const out = new Uint8ClampedArray(height * to * channels), weights = weightsOf(width, to);
  for (let y = 0; y < height; y += 1) weights.forEach(({ first, weights: by }, x) => {
    for (let channel = 0; channel < channels; channel += 1) {
      let sum = 2 ** 21;
      by.forEach((weight, step) => { sum += weight * data[(y * width + first + step) * channels + channel]; });
      out[(y * to + x) * channels + channel] = Math.floor(sum / 2 ** 22);
    }
  });
  return out;
}

function turned(data, height, width, channels) {
  const out = new Uint8ClampedArray(data.length);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) for (let channel = 0; channel < channels; channel += 1) {
    out[(x * height + y) * channels + channel] = data[(y * width + x) * channels + channel];
  }
  return out;
}

function pixelsOf({ data, width, height }) {
  const [high, wide, channels = 1] = MODEL.inputs.shape;
  const plain = new Uint8ClampedArray(width * height * channels);
  for (let place = 0; place < width * height; place += 1) {
    const [red, green, blue] = [data[4 * place], data[4 * place + 1], data[4 * place + 2]];
    if (channels === 3) plain.set([red, green, blue], 3 * place);
    else plain[place] = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
  }
  const lines = squeezed(plain, height, width, channels, wide);
  const columns = squeezed(turned(lines, height, wide, channels), wide, height, channels, high);
  return turned(columns, wide, high, channels);
}

async function readPicture(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: bitmap.width, height: bitmap.height });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(bitmap, 0, 0);
  return pixelsOf(pen.getImageData(0, 0, canvas.width, canvas.height));
}

function inRange(pixels) {
  const low = MODEL.inputs.low ?? 0, high = MODEL.inputs.high ?? 255;
  return Array.from(pixels, (pixel) => low + ((high - low) * pixel) / 255);
}

// A drawing as MNIST's digits were made (LeCun et al. 1998): scaled to fit a square of 20 of 28 pixels, and put so
// that its centre of mass is the centre of the picture.
function asDigit({ data, width, height }) {
  const at = (x, y) => data[4 * (y * width + x)];
  let left = width, top = height, right = -1, bottom = -1;
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) if (at(x, y) >= 32) {
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  if (right < 0) return null;
  const scale = Math.max(right - left + 1, bottom - top + 1) / 20;
  const wide = Math.max(1, Math.round((right - left + 1) / scale)), high = Math.max(1, Math.round((bottom - top + 1) / scale));
  const span = (place, places, start, length) => {
    const from = start + Math.floor((place * length) / places);
    return [from, Math.max(from + 1, start + Math.floor(((place + 1) * length) / places))];
  };
  const small = Array.from({ length: wide * high }, (_, place) => {
    const [x0, x1] = span(place % wide, wide, left, right - left + 1);
    const [y0, y1] = span(Math.floor(place / wide), high, top, bottom - top + 1);
    let sum = 0;
    for (let y = y0; y < y1; y += 1) for (let x = x0; x < x1; x += 1) sum += at(x, y);
    return sum / ((x1 - x0) * (y1 - y0));
  });
  const mass = small.reduce((sum, value) => sum + value, 0);
  const moment = (of) => small.reduce((sum, value, place) => sum + value * of(place), 0) / mass;
  const put = (centre, size) => Math.min(Math.max(Math.round((DRAWN_SIDE - 1) / 2 - centre), 0), DRAWN_SIDE - size);
  const x = put(moment((place) => place % wide), wide), y = put(moment((place) => Math.floor(place / wide)), high);
  const out = new Uint8ClampedArray(DRAWN_SIDE * DRAWN_SIDE);
  small.forEach((value, place) => { out[(y + Math.floor(place / wide)) * DRAWN_SIDE + x + (place % wide)] = Math.round(value); });
  return out;
}

// Rows of tables.

class Unusable extends Error {}

// Columns as they are called in the data, each with its words: "sex=f" and "sex=m" are the column sex with two words.
function columnsOf(names) {
  const known = new Set(names), columns = new Map();
  for (const name of names) {
    const [column] = name.split("=", 1), isWord = column && column !== name && !known.has(column);
    if (!isWord) columns.set(name, []);
    else columns.set(column, [...(columns.get(column) ?? []), name.slice(column.length + 1)]);
  }
  return columns;
}

function numberOf(cell, column) {
  if (ABSENT.has(cell)) {
    if (MODEL.inputs.gaps) return NaN;
    throw new Unusable(t("empty", { column }));
  }
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(cell) ? Number(cell) : NaN;
  if (!Number.isFinite(Math.fround(value))) throw new Unusable(t("noNumber", { column, value: cell.slice(0, 40) }));
  const { low, high } = MODEL.inputs;
  if ((low !== null && value < low) || (high !== null && value > high)) {
    throw new Unusable(t("range", { column, value: cell, low: low ?? t("any"), high: high ?? t("any") }));
  }
  return value;
}

function wordOf(cell, words, column) {
  if (words.includes(cell)) return cell;
  if (ABSENT.has(cell)) {
    if (MODEL.inputs.gaps) return null;
    throw new Unusable(t("noWord", { column }));
  }
  const alike = words.find((word) => word !== "" && cell !== "" && Number(word) === Number(cell));
  if (alike === undefined) throw new Unusable(t("unknownWord", { column, value: cell.slice(0, 40), words: words.slice(0, 8).join(", ") }));
  return alike;
}

// An input of the cells of one row by column.
function inputOf(cells, name = (column) => column) {
  const values = new Map();
  for (const [column, words] of columnsOf(MODEL.inputs.names)) {
    if (!words.length) values.set(column, numberOf(cells.get(column), name(column)));
    else if (!cells.has(column)) for (const word of words) values.set(`${column}=${word}`, numberOf(cells.get(`${column}=${word}`), name(`${column}=${word}`)));
    else {
      const chosen = wordOf(cells.get(column), words, name(column));
      for (const word of words) values.set(`${column}=${word}`, Number(word === chosen));
    }
  }
  return MODEL.inputs.names.map((column) => values.get(column));
}

// Rows of cells; a cell in quotation marks may hold the separator, and two of the marks are one.
function cellsOf(line, between) {
  const cells = [];
  for (const [, quoted, plain] of `${between}${line}`.matchAll(new RegExp(`${between}(?:"((?:[^"]|"")*)"|([^${between}]*))`, "g"))) {
    cells.push((quoted === undefined ? plain : quoted.replaceAll('""', '"')).trim());
  }
  return cells;
}

function readRows(text) {
  const lines = text.normalize("NFC").split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) throw new Unusable(t("noRows"));
  const between = ["\t", ";"].find((sign) => lines[0].includes(sign)) ?? ",";
  if (lines.length > MOST_ROWS + 1) throw new Unusable(t("tooMany", { most: MOST_ROWS }));
  const rows = lines.map((line) => cellsOf(line, between));
  const width = count(MODEL.inputs.shape), names = MODEL.inputs.names;
  const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));
  const head = names.length && !rows[0].every((cell) => isNumber(cell) || ABSENT.has(cell)) ? rows.shift() : null;
  if (head && new Set(head).size !== head.length) throw new Unusable(t("twice"));
  for (const [column, words] of columnsOf(head ? names : [])) {
    const has = head.includes(column) || (words.length && words.every((word) => head.includes(`${column}=${word}`)));
    if (!has) throw new Unusable(t("lacks", { column }));
  }
  return rows.map((row, place) => {
    const expected = head ? head.length : width;
    if (row.length !== expected) throw new Unusable(t("cells", { number: place + 1, got: row.length, count: expected }));
    const name = (column) => t("cell", { row: place + 1, column });
    if (head) return inputOf(new Map(head.map((column, at) => [column, row[at]])), name);
    return row.map((cell, at) => numberOf(cell, name(names[at] ?? String(at + 1))));
  });
}

// What a person sees.

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const name = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");

function predictedOf(row) {
  if (MODEL.predicts === "any_of") return row.map((value, place) => [value >= MODEL.threshold, place]).filter(([chosen]) => chosen).map(([, place]) => place);
  return [row.indexOf(Math.max(...row))];
}

function answer(rows) {
  const place = document.getElementById("result"), said = [];
  place.replaceChildren(...run(rows).flatMap((row, number) => {
    const classes = row.map((_, at) => name(MODEL.classes[at] ?? String(at)));
    const isValue = MODEL.predicts === "scores" && row.length === 1, chosen = predictedOf(row);
    const words = isValue ? String(Number(row[0].toPrecision(6))) : chosen.map((at) => classes[at]).join(", ") || t("none");
    said.push(words);
    const verdict = made("p", { class: "verdict", "data-predicted": "" }, words);
    return [...(rows.length > 1 ? [made("h3", {}, t("row", { number: number + 1 }))] : []), verdict, ...table(row, classes, chosen)];
  }));
  if (MODEL.predicts === "scores" && MODEL.classes.length > 1) place.append(made("p", { class: "soft" }, t("scores")));
  document.getElementById("said").textContent = said.slice(0, 3).join("; ");
}

function table(row, classes, chosen) {
  const isScore = MODEL.predicts === "scores";
  const least = isScore ? Math.min(...row) : 0, span = (isScore ? Math.max(...row) : 1) - least || 1;
  const order = row.map((_, at) => at);
  if (row.length > MOST_BARS) order.sort((one, other) => row[other] - row[one]);
  const lines = order.map((at) => {
    const bar = made("span", { class: "bar" });
    bar.style.width = `${Math.max(0, Math.min(100, (100 * (row[at] - least)) / span))}%`;
    const shown = isScore ? Number(row[at].toPrecision(4)) : `${(100 * row[at]).toFixed(1)} %`;
    return made("tr", { class: chosen.includes(at) ? "chosen" : undefined, "data-value": row[at], "data-place": at },
      made("th", { scope: "row" }, made("bdi", {}, classes[at])), made("td", { "aria-hidden": "true" }, bar), made("td", {}, String(shown)));
  });
  const whole = made("table", {}, made("caption", { class: "unseen" }, t("classes")), made("tbody", {}, ...lines));
  return [made("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": t("classes") }, whole)];
}

function fail(error) {
  if (!(error instanceof Unusable)) throw error;
  document.getElementById("result").replaceChildren(made("p", { class: "notice bad", role: "alert" }, error.message));
}

// Does what a person asked for; what is wrong with an input is shown in the place of the answer.
async function shown(work) {
  try {
    answer(await work());
  } catch (error) {
    fail(error);
  }
}

function drawing() {
  const canvas = made("canvas", { class: "draw", width: 280, height: 280, role: "img", "aria-label": t("drawing") });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const clear = () => {
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, 280, 280);
    Object.assign(pen, { strokeStyle: "#fff", lineWidth: 28, lineCap: "round", lineJoin: "round" });
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * 280) / box.width, ((event.clientY - box.top) * 280) / box.height];
  };
  let last = null;
  const line = (event) => {
    const to = at(event);
    pen.beginPath();
    pen.moveTo(...(last ?? to));
    pen.lineTo(...to);
    pen.stroke();
    last = to;
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    line(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (last) line(event); });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => {
    last = null;
    const pixels = asDigit(pen.getImageData(0, 0, 280, 280));
    if (pixels) shown(() => [asInput(pixels)]);
  });
  const button = made("button", { type: "button" }, t("clear"));
  button.addEventListener("click", clear);
  clear();
  return [made("p", { class: "hint" }, t("draw")), canvas, button];
}

// An input of these bytes, which are shown as the model sees them.
function asInput(pixels) {
  const [high, wide, channels = 1] = MODEL.inputs.shape, picture = new ImageData(wide, high);
  for (let place = 0; place < wide * high; place += 1) for (let colour = 0; colour < 4; colour += 1) {
    picture.data[4 * place + colour] = colour === 3 ? 255 : pixels[channels * place + (channels === 3 ? colour : 0)];
  }
  const seen = document.querySelector(".seen");
  seen.getContext("2d").putImageData(picture, 0, 0);
  seen.hidden = false;
  return inRange(pixels);
}

function pictureForm() {
  const [high, wide, channels = 1] = MODEL.inputs.shape;
  const file = made("input", { type: "file", accept: "image/png,image/jpeg" });
  const seen = made("canvas", { class: "seen", width: wide, height: high, role: "img", "aria-label": t("seen") });
  seen.hidden = true;
  file.addEventListener("change", () => file.files.length && shown(async () => {
    const pixels = await readPicture(file.files[0]).catch(() => { throw new Unusable(t("unreadable")); });
    return [asInput(pixels)];
  }));
  const drawn = high === DRAWN_SIDE && wide === DRAWN_SIDE && channels === 1 ? drawing() : [];
  return [...drawn, made("label", {}, t("picture", { size: `${wide} x ${high}` }), file), seen];
}

function tableForm() {
  const columns = columnsOf(MODEL.inputs.names), button = made("button", {}, t("predict"));
  if (!columns.size || columns.size > MOST_FIELDS) {
    const rows = made("textarea", { rows: 6, spellcheck: "false" });
    return [[made("label", {}, t("rows", { count: count(MODEL.inputs.shape) }), rows), button], () => readRows(rows.value)];
  }
  const fields = new Map();
  const labels = [...columns].map(([column, words]) => {
    const options = ["", ...words].map((word) => made("option", { value: word }, name(word)));
    fields.set(column, words.length ? made("select", {}, ...options) : made("input", { inputmode: "decimal", autocomplete: "off" }));
    return made("label", {}, made("bdi", {}, name(column)), fields.get(column));
  });
  const hints = MODEL.inputs.gaps ? [made("p", { class: "hint" }, t("gaps"))] : [];
  const read = () => [inputOf(new Map([...fields].map(([column, field]) => [column, field.value.trim()])))];
  return [[...hints, made("div", { class: "columns" }, ...labels), button], read];
}

function begin() {
  document.documentElement.lang = LANGUAGE;
  const put = (id, text) => { document.getElementById(id).textContent = text; };
  put("input-title", t("input"));
  put("result-title", t("result"));
  put("result", t("nothing"));
  put("foot", t("foot"));
  put("about", t(MODEL.round < 0 ? "madeUntrained" : "made", MODEL));
  document.getElementById("note").hidden = !MODEL.note;
  put("note", MODEL.note);
  const form = document.getElementById("form");
  if (MODEL.inputs.hint) form.append(made("p", { class: "hint" }, name(MODEL.inputs.hint)));
  form.addEventListener("submit", (event) => event.preventDefault());
  if (MODEL.inputs.kind === "image") {
    form.append(...pictureForm());
    return;
  }
  const [parts, read] = tableForm();
  form.append(...parts);
  form.addEventListener("submit", () => shown(read));
}

begin();
