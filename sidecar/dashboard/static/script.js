// Comfort only: every page works without this file.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

// Times are in UTC; a pointer shows the local time.
for (const time of document.querySelectorAll("time[datetime]")) {
  time.title = `${new Date(time.dateTime).toLocaleString()} here, shown in UTC`;
}

// Drawing over a chart chooses a time: from the first step under the pointer to the last.
const minute = (second) => new Date(second * 1000).toISOString().slice(0, 16);

function zoomable(chart) {
  const { zoom, chosen: choice, since, step, left, slot } = chart.dataset;
  const steps = Math.round((chart.viewBox.baseVal.width - left) / slot);
  const area = chart.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
  let first = null, last = null;
  const place = (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) * chart.viewBox.baseVal.width) / box.width;
    return Math.max(0, Math.min(steps - 1, Math.floor((x - left) / slot)));
  };
  const draw = () => {
    const [from, to] = [Math.min(first, last), Math.max(first, last) + 1];
    area.setAttribute("x", Number(left) + from * slot);
    area.setAttribute("width", first === last ? 0 : (to - from) * slot);
  };
  area.setAttribute("class", "area");
  area.setAttribute("height", chart.viewBox.baseVal.height);
  chart.addEventListener("dragstart", (event) => event.preventDefault());
  chart.addEventListener("pointerdown", (event) => { first = last = event.button ? null : place(event); });
  window.addEventListener("pointermove", (event) => {
    if (first === null) return;
    last = place(event);
    draw();
  });
  window.addEventListener("pointercancel", () => { first = null; area.setAttribute("width", 0); });
  window.addEventListener("pointerup", () => {
    const [from, to] = [Math.min(first, last), Math.max(first, last) + 1];
    const chosen = first !== null && first !== last;
    first = null;
    if (!chosen) return;
    window.addEventListener("click", (event) => event.preventDefault(), { capture: true, once: true });
    const [begin, end] = [from, to].map((index) => minute(Number(since) + index * step));
    location.assign(`${zoom}?since=${begin}&until=${end}${choice && `&${choice}`}`);
  });
}

for (const chart of document.querySelectorAll("svg[data-zoom]")) zoomable(chart);
for (const hint of document.querySelectorAll("[data-script]")) hint.hidden = false;
