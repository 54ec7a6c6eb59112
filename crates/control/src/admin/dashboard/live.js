// Puts in place what the edge sends; what was opened stays open, the focus stays where it was.
const main = document.getElementById("live");
new EventSource("/live").onmessage = ({ data }) => {
  const open = [...main.querySelectorAll("details[open]")].map(({ id }) => id);
  const focus = document.activeElement?.parentElement?.id;
  main.innerHTML = data;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focus) document.getElementById(focus)?.querySelector("summary")?.focus();
};
