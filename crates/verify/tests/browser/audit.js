// Looks at the page it stands on as a reader with weak sight, a screen reader or only a keyboard
// would, and leaves what it found as JSON in an element called "audit": contrasts as WCAG 2
// computes them, names of controls, visible focus.
"use strict";
(() => {
  const channel = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  const parse = (text) => {
    const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
    return { red, green, blue, alpha };
  };
  const over = (top, bottom) => {
    const mix = (name) => top[name] * top.alpha + bottom[name] * (1 - top.alpha);
    return { red: mix("red"), green: mix("green"), blue: mix("blue"), alpha: 1 };
  };
  const luminance = ({ red, green, blue }) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  const ratio = (one, two) => {
    const [light, dark] = [luminance(one), luminance(two)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  // The colour behind an element: its own background over that of those around it.
  const background = (element) => {
    if (!element) return { red: 255, green: 255, blue: 255, alpha: 1 };
    const own = parse(getComputedStyle(element).backgroundColor);
    return own.alpha === 1 ? own : over(own, background(element.parentElement));
  };
  const name = (element) => {
    const classes = element.getAttribute("class");
    return element.tagName.toLowerCase() + (element.id ? `#${element.id}` : "") + (classes ? `.${classes.replace(/ /g, ".")}` : "");
  };
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";

  const contrasts = () => {
    const found = { texts: 0, lowest: 21, faint: [] };
    for (const element of document.querySelectorAll("#page *")) {
      const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
      if (!text || !shown(element)) continue;
      const style = getComputedStyle(element);
      const behind = background(element);
      const contrast = ratio(over(parse(style.color), behind), behind);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      found.texts += 1;
      found.lowest = Math.min(found.lowest, contrast);
      if (contrast < (large ? 3 : 4.5)) found.faint.push(`${name(element)} ${contrast.toFixed(2)}`);
    }
    return found;
  };
  // Lines and areas that carry meaning need 3:1 against what they are drawn on.
  const colours = () => {
    const root = getComputedStyle(document.documentElement);
    const probe = document.createElement("i");
    document.body.append(probe);
    const of = (variable) => {
      probe.style.color = root.getPropertyValue(variable);
      return parse(getComputedStyle(probe).color);
    };
    const card = of("--card");
    const faint = [];
    const names = ["--run", "--throttled", "--burst", "--text", "--accent", "--wait"];
    for (let row = 0; row < 6; row += 1) names.push(`--cost-${row}`);
    for (let row = 0; row < 10; row += 1) names.push(`--variant-${row}`, `--thread-${row}`);
    for (const variable of names) {
      const contrast = ratio(of(variable), card);
      if (contrast < 3) faint.push(`${variable} ${contrast.toFixed(2)}`);
    }
    probe.remove();
    return { checked: names.length, faint };
  };
  const labelled = (element) => {
    const text = element.getAttribute("aria-label") || element.textContent.trim() || element.getAttribute("title");
    const labels = element.labels ? [...element.labels].map((label) => label.textContent.trim()).join("") : "";
    return element.tagName === "SELECT" || element.tagName === "INPUT" ? Boolean(labels || element.getAttribute("aria-label")) : Boolean(text);
  };
  const controls = () => {
    const found = { controls: 0, unnamed: [], unseen: [] };
    const all = document.querySelectorAll("#page a[href], #page button, #page input, #page select, #page [tabindex]");
    for (const element of all) {
      // What is hidden or switched off is reached by nobody.
      if (element.disabled || !shown(element)) continue;
      found.controls += 1;
      if (!labelled(element)) found.unnamed.push(name(element));
      element.focus();
      const style = getComputedStyle(element);
      const visible = document.activeElement === element && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
      const behind = background(element.parentElement);
      if (!visible || ratio(over(parse(style.outlineColor), behind), behind) < 3) found.unseen.push(`${name(element)} ${style.outline}`);
      element.blur();
    }
    return found;
  };
  const pictures = () => {
    const all = [...document.querySelectorAll("#page canvas")];
    const bare = all.filter((canvas) => !canvas.closest("[role=img][aria-label], [aria-label]"));
    return { pictures: all.length, unnamed: bare.map(name) };
  };
  const look = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const left = document.createElement("pre");
    left.id = "audit";
    const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    left.textContent = JSON.stringify({ dark, wide, contrasts: contrasts(), colours: colours(), controls: controls(), pictures: pictures() });
    document.body.append(left);
  };
  // Plots are drawn in the first frame. Frames come by the clock on the wall, but the timers of a
  // browser with a budget of virtual time do not wait for it: each round passes some real time with
  // arithmetic.
  const whenDrawn = () => {
    const plots = [...document.querySelectorAll("#page .plot")];
    if (plots.every((plot) => plot.querySelector("canvas"))) return look();
    let sum = 0;
    for (let round = 0; round < 2e6; round += 1) sum += Math.sqrt(round);
    setTimeout(whenDrawn, sum > 0 ? 20 : 0);
  };
  setTimeout(whenDrawn, 1500);
})();
