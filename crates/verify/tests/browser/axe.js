// Runs axe-core over the page it stands on, with everything unfolded, and leaves what it found as JSON in an element
// called "axe": rule, and the elements that break it.
"use strict";
setTimeout(async () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const { violations, passes } = await axe.run(document);
  const broken = violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}`));
  const left = document.createElement("pre");
  left.id = "axe";
  left.textContent = JSON.stringify({ passes: passes.length, broken });
  document.body.append(left);
}, 2500);
