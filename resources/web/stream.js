// Follows a stream of server-sent events, of whatever kinds, over breaks and restarts of the node.
// Not EventSource: it hears only the kinds that are named beforehand, and gives up on an error status.

const SILENT = 8000; // ms; the node sends a sign of life every 3 seconds
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10000;

export function follow(url, { opened, lost, told }) {
  let lastId = "";
  let running = null;
  let pause = FIRST_PAUSE;
  let timer = 0;

  async function run() {
    const control = new AbortController();
    running = control;
    try {
      await read(control);
    } catch {
      // Whatever it was, the next attempt shows.
    }
    if (running !== control) return; // paused meanwhile, or started again
    running = null;
    lost();
    timer = setTimeout(run, pause * (0.75 + Math.random() / 2));
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }

  async function read(control) {
    const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
    let watch = setTimeout(() => control.abort(), SILENT);
    try {
      const answer = await fetch(url, { headers, cache: "no-store", signal: control.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      opened();
      pause = FIRST_PAUSE;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(watch);
        watch = setTimeout(() => control.abort(), SILENT);
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        blocks.forEach(hear);
      }
    } finally {
      clearTimeout(watch);
    }
  }

  function hear(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => line.match(/^(\w*):? ?(.*)$/).slice(1)));
    if (fields.id) lastId = fields.id;
    if (fields.data) told(JSON.parse(fields.data));
  }

  function stop() {
    clearTimeout(timer);
    const control = running;
    running = null;
    control?.abort();
  }

  const again = () => {
    stop();
    if (!document.hidden) run();
  };
  if (!document.hidden) run();
  // A network that comes or goes says little of this node; an attempt shows whether it can be reached.
  for (const change of ["online", "offline"]) addEventListener(change, again);
  return { pause: stop, resume: again, retry: again };
}
