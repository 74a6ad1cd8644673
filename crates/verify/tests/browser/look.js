// Looks at the page it stands on as a reader does: what the first screen says, whether something
// moves or loads, and what the keyboard reaches. Leaves what it found as JSON in an element called
// "looked".
"use strict";
(() => {
  const panel = () => {
    const box = document.querySelector(".controls")?.getBoundingClientRect();
    return box ? [box.left, box.top, box.width, box.height].map(Math.round) : null;
  };
  const first = panel();
  // What is offered as a file, instead of saving it.
  const saved = [];
  HTMLAnchorElement.prototype.click = function () {
    saved.push(`${this.download} ${this.href.split(/[,/]/).slice(0, 2).join("/")}`);
  };
  setTimeout(() => {
    for (const button of document.querySelectorAll("#frontier .tools button")) button.click();
  }, 1000);
  const look = () => {
    const inside = (element) => element.getBoundingClientRect().top < window.innerHeight;
    const words = [...document.querySelectorAll("main h1, main h2, main p, main th, main li, main text")]
      .filter((element) => element.getClientRects().length && inside(element))
      .map((element) => element.textContent);
    const picture = document.querySelector("#frontier svg");
    const found = {
      words: words.join("\n"),
      wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
      frontier: picture ? { top: Math.round(picture.getBoundingClientRect().top), lines: picture.querySelectorAll("polyline").length, bands: picture.querySelectorAll("polygon").length } : null,
      answer: document.querySelector("#frontier-answer")?.textContent ?? "",
      stale: document.querySelector("main").classList.contains("stale"),
      banner: document.querySelector(".banner:not([hidden])")?.textContent ?? "",
      panel: [first, panel()],
      saved,
      loaded: performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith(location.origin)),
    };
    // Keys alone: the picture says its points one after the other.
    if (picture) {
      const points = [];
      document.querySelector("#frontier svg").focus();
      for (let step = 0; step < 3; step += 1) {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
        points.push(document.querySelector("#frontier-point").textContent);
      }
      found.points = points;
    }
    const left = document.createElement("pre");
    left.id = "looked";
    left.textContent = JSON.stringify(found);
    document.body.append(left);
  };
  setTimeout(look, 2500);
})();
