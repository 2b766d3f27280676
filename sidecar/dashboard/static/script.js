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
