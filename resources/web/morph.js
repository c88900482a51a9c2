// Makes an element like another one by changing only what differs: focus, typing and open details stay.

const KEPT = new Set(["open", "data-lit", "aria-busy"]); // attributes that belong to the person and the moment

export function morph(here, fresh) {
  const focused = document.activeElement;
  element(here, fresh);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function element(here, fresh) {
  if (here.hasAttribute("data-keep") || here.isEqualNode(fresh)) return;
  attributes(here, fresh);
  children(here, fresh);
}

function attributes(here, fresh) {
  for (const { name } of [...here.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name) && !isShown(here, name)) here.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (KEPT.has(name) || isShown(here, name) || here.getAttribute(name) === value) continue;
    // The attribute is the default of what stands in a field; what a person typed stays.
    here.setAttribute(name, value);
  }
}

function isShown(here, name) {
  return name === "hidden" && (here.dataset.kind !== undefined || here.dataset.filtered !== undefined); // by the filter
}

function children(here, fresh) {
  const keyed = new Map();
  const plain = new Map();
  for (const child of here.childNodes) {
    const key = keyOf(child);
    if (key) keyed.set(key, child);
    else if (plain.has(child.nodeName)) plain.get(child.nodeName).push(child);
    else plain.set(child.nodeName, [child]);
  }
  const wanted = [...fresh.childNodes];
  const found = wanted.map((child) => take(child, keyed, plain));
  const kept = new Set(found);
  for (const child of [...here.childNodes]) if (!kept.has(child)) child.remove();
  let place = here.firstChild;
  wanted.forEach((child, index) => {
    const old = found[index];
    if (old === place && old) place = place.nextSibling;
    else here.insertBefore(old ?? child, place);
    if (old) node(old, child);
  });
}

function take(child, keyed, plain) {
  const key = keyOf(child);
  if (!key) return plain.get(child.nodeName)?.shift();
  const old = keyed.get(key);
  keyed.delete(key);
  return old;
}

function node(here, fresh) {
  if (here.nodeType === Node.ELEMENT_NODE) element(here, fresh);
  else if (here.nodeValue !== fresh.nodeValue) here.nodeValue = fresh.nodeValue;
}

function keyOf(child) {
  if (child.nodeType !== Node.ELEMENT_NODE) return "";
  const key = child.id || child.dataset.key;
  return key ? `${child.nodeName} ${key}` : "";
}
