// Puts in place what the edge sends; what was opened stays open, the focus stays where it was.
const main = document.getElementById("live");
const stale = document.getElementById("stale");
const pause = document.getElementById("pause");
let events, heard;

function focused() {
  const element = document.activeElement;
  return main.contains(element) ? element.id || element.parentElement.id : "";
}

function show(data) {
  const open = [...main.querySelectorAll("details[open]")].map(({ id }) => id);
  const aside = [...main.querySelectorAll(".wide")].map(({ id, scrollLeft }) => [id, scrollLeft]);
  const id = focused();
  main.innerHTML = data;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  for (const [id, left] of aside) {
    const table = document.getElementById(id);
    if (table) table.scrollLeft = left;
  }
  const element = id && document.getElementById(id);
  if (element) (element.querySelector(":scope > summary") ?? element).focus({ preventScroll: true });
}

function hear() {
  heard = Date.now();
  stale.hidden = true;
}

function connect() {
  heard = Date.now();
  events = new EventSource("/live");
  events.onmessage = ({ data }) => {
    hear();
    if (pause.getAttribute("aria-pressed") === "false") show(data);
  };
  events.addEventListener("alive", hear);
  events.onerror = () => { stale.hidden = false; };
}

// A browser has six connections to an edge at most: a tab that nobody sees leaves its to others.
function follow() {
  events?.close();
  if (!document.hidden) connect();
}

// An edge that hangs says nothing, and after a refusal the browser does not try again by itself.
setInterval(() => {
  if (document.hidden || Date.now() - heard < 15000) return;
  stale.hidden = false;
  follow();
}, 1000);
document.addEventListener("visibilitychange", follow);
follow();

pause.onclick = () => {
  const paused = pause.getAttribute("aria-pressed") === "false";
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
};
