// Goes through the steps of a round without a new page: each step says which nodes it changes, and how.

const place = document.querySelector("[data-replay]");
if (place?.querySelector("[data-controls]")) replay(place);

function replay(place) {
  const words = JSON.parse(place.dataset.replay), chips = JSON.parse(place.dataset.chips);
  const steps = [...place.querySelectorAll("[data-changes]")];
  const rows = new Map([...place.querySelectorAll("[data-node]")].map((row) => [row.dataset.node, row]));
  const play = place.querySelector("[data-go=play]");
  let at = steps.length, timer = 0;
  place.querySelector("[data-controls]").hidden = false;

  function show(step) {
    at = Math.min(Math.max(step, 1), steps.length);
    const states = new Map([...rows.keys()].map((node) => [node, ["awaited", ""]]));
    for (const one of steps.slice(0, at)) {
      for (const [node, state] of Object.entries(JSON.parse(one.dataset.changes))) states.set(node, state);
    }
    for (const [node, row] of rows) {
      const [state, why] = states.get(node), chip = row.querySelector("[data-state]");
      chip.textContent = words[state];
      chip.className = `chip ${chips[state]}`;
      row.querySelector("[data-why]").textContent = why;
    }
    steps.forEach((one, number) => {
      one.classList.toggle("later", number >= at);
      if (number === at - 1) one.querySelector("a").setAttribute("aria-current", "step");
      else one.querySelector("a").removeAttribute("aria-current");
    });
    document.getElementById("nodes").textContent = place.dataset.after.replace("{number}", at);
    document.getElementById("said").textContent = steps[at - 1].textContent.trim().replace(/\s+/g, " ");
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = place.dataset.play;
  }

  function toggle() {
    if (timer) {
      stop();
      return;
    }
    show(at === steps.length ? 1 : at + 1);
    play.textContent = place.dataset.stop;
    timer = setInterval(() => (at < steps.length ? show(at + 1) : stop()), 1000);
  }

  place.addEventListener("click", (event) => {
    const go = event.target.closest("[data-go]")?.dataset.go, link = event.target.closest(".steps a");
    if (go === "play") toggle();
    if (go === "back" || go === "on" || link) {
      event.preventDefault();
      stop();
      show(link ? steps.indexOf(link.closest("li")) + 1 : at + (go === "on" ? 1 : -1));
    }
  });
}
