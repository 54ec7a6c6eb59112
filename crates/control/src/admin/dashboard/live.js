// Puts in place what the edge sends; what was opened stays open, the focus stays where it was.
const main = document.getElementById("live");
const stale = document.getElementById("stale");
const pause = document.getElementById("pause");
const events = new EventSource("/live");

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

events.onmessage = ({ data }) => {
  if (pause.getAttribute("aria-pressed") === "false") show(data);
};
events.onopen = () => { stale.hidden = true; };
events.onerror = () => { stale.hidden = false; };
pause.onclick = () => {
  const paused = pause.getAttribute("aria-pressed") === "false";
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
};
