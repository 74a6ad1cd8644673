// Uses the timeline of the page it stands on as a reader does, and leaves what it says as JSON in
// an element called "timeline".
"use strict";
(() => {
  const box = () => document.querySelector("#timeline");
  const info = () => box().querySelector(".info").textContent;
  const press = (text) => [...box().querySelectorAll("button")].find((one) => one.textContent === text)?.click();
  const canvas = () => box().querySelector("canvas");
  const range = () => document.querySelector("#periods .part-of-run")?.textContent ?? "";
  /** What stands beside the pointer, and how far away. */
  const pointAt = (share, y) => {
    const area = canvas().getBoundingClientRect();
    const [x, top] = [area.left + 54 + share * (area.width - 54), area.top + y];
    canvas().dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: top, bubbles: true }));
    const tip = box().querySelector(".tip");
    const at = tip.getBoundingClientRect();
    return { text: tip.hidden ? "" : tip.textContent, right: Math.round(at.left - x), down: Math.round(at.top - top) };
  };
  const frame = () => new Promise((resolve) => setTimeout(resolve, 200));
  const look = async () => {
    const found = { height: canvas().getBoundingClientRect().height, choices: [...box().querySelectorAll("#cpus-shown option")].map((one) => one.textContent) };
    found.whole = pointAt(0.5, found.height - 50).text;
    press("longest wait");
    await frame();
    found.first = info();
    found.range = range();
    // The lane of the first group is the first below the CPUs.
    const cpus = box().querySelector("canvas").getAttribute("aria-label").match(/(\d+) CPUs/)[1];
    const rows = Math.min(16, Number(cpus));
    found.near = pointAt(0.5, rows * (rows > 8 ? 13 : 18) + 6 + 30);
    press("next longest wait");
    await frame();
    found.second = info();
    found.moved = range();
    const field = document.querySelector("#thread");
    field.value = box().querySelector("#threads option")?.value.slice(0, 4) ?? "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    found.sought = info();
    const enter = () => field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    press("whole run");
    enter();
    await frame();
    found.run = info();
    enter();
    await frame();
    found.next = info();
    field.value = "no such thread";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    found.none = info();
    press("whole run");
    await frame();
    found.back = getComputedStyle(document.querySelector("#periods .part-of-run")).visibility;
    const area = canvas().getBoundingClientRect();
    const turn = { clientX: area.left + area.width / 2, clientY: area.top + 5, deltaY: -100, bubbles: true, cancelable: true };
    found.scrolls = canvas().dispatchEvent(new WheelEvent("wheel", turn));
    found.zooms = !canvas().dispatchEvent(new WheelEvent("wheel", { ...turn, ctrlKey: true }));
    await frame();
    found.turned = range();
    const left = document.createElement("pre");
    left.id = "timeline-found";
    left.textContent = JSON.stringify(found);
    document.body.append(left);
  };
  setTimeout(() => void look(), 2000);
})();
