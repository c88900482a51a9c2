// Lights up the lines of the picture over which an update or a model has just come or gone.

const LIT = 1000; // ms
const FROM_PEER = new Set(["update_received", "fetching", "exchanged"]);
const lit = new Map(); // the lines by their two ends: in which direction, and until when
let waiting = false;

// What an event tells of the ways that models took: [from, to]; null for all other nodes.
export function ways({ kind, data }, me) {
  if (FROM_PEER.has(kind) && data?.peer) return [[String(data.peer), me]];
  if (kind === "trained") return [[me, null]]; // the update goes out now
  if (kind === "round_opened" && data?.initiator) {
    return data.initiator === me ? [[me, null]] : [[String(data.initiator), me]]; // the model that it starts from
  }
  return [];
}

// Many events at once are shown together, in the next frame.
export function lightUp(item, me) {
  for (const [from, to] of ways(item, me)) {
    for (const edge of document.querySelectorAll(".mesh .edge")) {
      const { a, b } = edge.dataset;
      const goes = a === from && (to === null || b === to);
      const comes = b === from && (to === null || a === to);
      if (goes || comes) lit.set(edge, { way: goes ? "" : "back", until: performance.now() + LIT });
    }
  }
  if (!waiting && lit.size) {
    waiting = true;
    requestAnimationFrame(show);
  }
}

function show() {
  waiting = false;
  const now = performance.now();
  for (const [edge, { way, until }] of lit) {
    if (until <= now) {
      edge.removeAttribute("data-lit");
      lit.delete(edge);
    } else if (edge.getAttribute("data-lit") !== way) {
      edge.setAttribute("data-lit", way);
    }
  }
  if (!lit.size) return;
  waiting = true;
  setTimeout(() => requestAnimationFrame(show), LIT / 4);
}
