// Keeps the page up to date with what the node tells; the page works without this file.
import { follow } from "./stream.js";
import { morph } from "./morph.js";
import { filterEvents } from "./filter.js";
import { lightUp } from "./mesh.js";
import "./look.js";

const SOON = 250; // ms: at most four updates a second for events
const MOVING = 1000; // while only progress moves
const QUIET = 30000; // in case that something of a peer has changed, of which no event tells
const SETTLED = 1500; // after the last event: what the peers say of themselves is up to a second old
const SLOWEST = 1000; // ms: however long an answer took, the next is asked for within eight times this
const BACK = 5000; // how long it is said that the node is back
const SAID = new Set(["round_opened", "round_closed", "training_failed", "peer_lost", "peer_left", "peer_back", "no_data",
  "vertical_warning", "trust_pending", "trust_accepted", "trust_withdrawn"]);

const main = () => document.getElementById("main");
const isLive = () => main().hasAttribute("data-live");
const banner = document.getElementById("connection");
let etag = "";
let fetching = null;
let timer = 0;
let due = Infinity;
let last = -Infinity;
let lastEvent = 0; // that the page was opened
let sending = 0;
let took = 0; // ms, the last answer: a slow node is asked less often
let connected = false;
let missed = false; // something happened while the page was being fetched

function say(text, language) {
  const region = document.getElementById("said");
  region.lang = language;
  region.textContent = text;
}

function plan(delay) {
  if (!isLive() || document.hidden || !connected) return;
  const when = Math.max(performance.now() + delay, last + Math.max(SOON, 8 * took));
  if (when >= due) return;
  due = when;
  clearTimeout(timer);
  timer = setTimeout(refresh, when - performance.now());
}

async function refresh() {
  due = Infinity;
  missed = Boolean(fetching);
  if (fetching || sending || document.hidden) return;
  last = performance.now();
  fetching = new AbortController();
  try {
    const headers = { Accept: "text/html", ...(etag && { "If-None-Match": etag }) };
    const address = new URL(location.pathname, location.origin);
    address.searchParams.set("fragment", "main");
    const answer = await fetch(address, { headers, cache: "no-store", signal: fetching.signal });
    if (answer.status === 200) {
      const html = await answer.text();
      etag = answer.headers.get("ETag") ?? "";
      show(new DOMParser().parseFromString(html, "text/html").getElementById("main"));
    }
    took = Math.min(performance.now() - last, SLOWEST);
  } catch {
    // The stream tells when the node is gone, and when it is back.
  } finally {
    fetching = null;
    const settling = performance.now() - lastEvent < SETTLED;
    plan(missed ? SOON : settling ? SETTLED : main().hasAttribute("data-busy") ? MOVING : QUIET);
  }
}

function show(fresh) {
  if (!fresh) return;
  if (fresh.dataset.version !== main().dataset.version) {
    location.reload(); // another version of flnet runs now, with other scripts and styles
    return;
  }
  morph(main(), fresh);
  filterEvents();
}

function tellConnection(kind, text) {
  banner.className = `notice ${kind}`;
  banner.hidden = false;
  if (banner.textContent !== text) banner.textContent = text; // said once, not at each attempt
}

const connection = follow(`/events?language=${document.documentElement.lang}`, {
  opened() {
    connected = true;
    took = 0;
    if (!banner.hidden) {
      tellConnection("good", banner.dataset.back);
      setTimeout(() => connected && (banner.hidden = true), BACK);
    }
    plan(0);
  },
  lost() {
    connected = false;
    fetching?.abort(); // else what hangs would be waited for when the node is back
    tellConnection("bad", banner.dataset.lost);
  },
  told(item) {
    lastEvent = performance.now();
    lightUp(item, document.body.dataset.me);
    if (SAID.has(item.kind)) say(item.shown ?? item.text, item.shown_language ?? "en");
    plan(SOON);
  },
});

function complain(text) {
  const notice = Object.assign(document.createElement("p"), { className: "notice bad", textContent: text });
  notice.setAttribute("role", "alert");
  document.getElementById("notices").replaceChildren(notice);
}

async function send(form, button) {
  sending += 1;
  fetching?.abort();
  button?.setAttribute("aria-busy", "true");
  try {
    const body = new URLSearchParams(new FormData(form, button));
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
    if (!answer.headers.get("Content-Type")?.startsWith("text/html")) {
      const refusal = await answer.json();
      complain(refusal.shown ?? refusal.message); // refused before it came to the form
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.getElementById("notices").replaceChildren(...page.getElementById("notices").children);
    const good = document.querySelector("#notices [role=status]");
    if (good) say(good.textContent, document.documentElement.lang);
    etag = "";
    show(page.getElementById("main"));
    if (good) form.reset();
  } catch {
    connection.retry();
  } finally {
    sending -= 1;
    button?.removeAttribute("aria-busy");
    plan(SETTLED);
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.hasAttribute("data-send")) return;
  event.preventDefault();
  if (event.submitter?.getAttribute("aria-busy") !== "true") send(form, event.submitter);
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(timer);
    due = Infinity;
    fetching?.abort();
    connection.pause();
  } else {
    connection.resume();
  }
});
document.documentElement.dataset.script = "on";
filterEvents();
