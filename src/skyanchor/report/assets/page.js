"use strict";
// Adds to a page that is whole without it: tooltips, layers, zoom and pan of the map, sliders. No framework, no network.
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// --- tooltips: hover, focus or tap instead of the browser's own ----------------------------------------------------
const tip = byId("tip");

function takeTitles() {
  for (const title of all("svg title")) {
    const node = title.parentNode;
    node.dataset.tip = title.textContent;
    node.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  for (const node of all("main [title]")) {
    node.dataset.tip = node.title;
    node.setAttribute("aria-label", node.title);
    node.removeAttribute("title");
  }
}

function explain(event) {
  const node = event.target.closest?.("[data-tip]");
  tip.hidden = !node;
  if (!node) return;
  tip.textContent = node.dataset.tip;
  const box = node.getBoundingClientRect(), page = document.documentElement;
  const x = (event.clientX ?? box.left) + window.scrollX + 14, y = (event.clientY ?? box.bottom) + 14;
  tip.style.left = Math.max(8, Math.min(x, window.scrollX + page.clientWidth - tip.offsetWidth - 8)) + "px";
  const above = y + tip.offsetHeight > page.clientHeight ? Math.max(8, y - tip.offsetHeight - 28) : y;
  tip.style.top = above + window.scrollY + "px";
}
for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, explain);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

// --- what is looked into: the wheel is taken only with Ctrl or after a click, so that the page scrolls -------------
function takesWheel(node, event) {
  return event.ctrlKey || event.metaKey || node.contains(document.activeElement);
}

// --- map -----------------------------------------------------------------------------------------------------------
function liveMap() {
  const holder = byId("map-view"), svg = byId("map-picture");
  const boxOf = (text) => text.split(" ").map(Number);
  const home = boxOf(svg.dataset.walk), whole = boxOf(svg.dataset.whole);
  let [left, top, width, height] = home;
  const where = make("div", { class: "where", hidden: "" });
  holder.append(where);
  holder.classList.add("live");
  svg.setAttribute("tabindex", "0");

  function draw() {
    svg.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
    holder.style.setProperty("--u", width / Math.max(1, svg.clientWidth));
    const metres = width / DATA.map.scale, most = metres / 4;
    const power = 10 ** Math.floor(Math.log10(most)), nice = [5, 2, 1].find((n) => n * power <= most) * power;
    const scale = byId("map-scale");
    scale.style.width = (100 * nice) / metres + "%";
    scale.textContent = nice >= 1 ? `${nice} m` : `${Math.round(100 * nice)} cm`;
  }
  function show([x, y, w, h]) { // the box in the middle, in the shape of the window
    const shape = holder.clientHeight / Math.max(1, holder.clientWidth);
    width = Math.max(w, h / shape); height = width * shape;
    left = x + (w - width) / 2; top = y + (h - height) / 2;
    draw();
  }
  function zoom(factor, cx = left + width / 2, cy = top + height / 2) {
    const least = DATA.map.scale * 2, most = 3 * Math.max(whole[2], home[2]);
    const by = Math.min(Math.max(width * factor, least), most) / width;
    left = cx + (left - cx) * by; top = cy + (top - cy) * by;
    width *= by; height *= by;
    draw();
  }
  function at(event) {
    const box = svg.getBoundingClientRect();
    return [left + ((event.clientX - box.left) / box.width) * width, top + ((event.clientY - box.top) / box.height) * height];
  }
  function tell(event) {
    const [u, v] = at(event), map = DATA.map, x = map.left + u / map.scale, y = map.top - v / map.scale;
    const [e, n] = [x + map.offset[0], y + map.offset[1]].map((value) => value.toFixed(2));
    const lines = [`${map.system ? "E" : "x"} ${e}  ${map.system ? "N" : "y"} ${n} m`];
    if (map.earth) lines.push(map.earth.map(([a, b, c]) => (a + b * x + c * y).toFixed(7) + "°").join(", "));
    where.innerText = lines.join("\n");
    where.hidden = false;
  }

  const held = new Map(); // pointers that are down, by id
  svg.addEventListener("pointerdown", (event) => {
    const touch = event.pointerType === "touch";
    if (touch && !svg.contains(document.activeElement)) return; // the first tap wakes it, and the page scrolls till then
    held.set(event.pointerId, event);
    holder.classList.add("drag");
  });
  svg.addEventListener("pointermove", (event) => {
    tell(event);
    const before = held.get(event.pointerId);
    if (!before) return;
    const share = width / Math.max(1, svg.clientWidth), others = [...held.values()].filter((one) => one.pointerId !== event.pointerId);
    if (others.length) {
      const gap = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY);
      zoom(gap(before) / Math.max(1, gap(event)), ...at(event));
    } else {
      left -= (event.clientX - before.clientX) * share; top -= (event.clientY - before.clientY) * share;
      draw();
    }
    held.set(event.pointerId, event);
  });
  for (const kind of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(kind, (event) => {
    held.delete(event.pointerId);
    if (!held.size) holder.classList.remove("drag");
    if (kind === "pointerleave") where.hidden = true;
  });
  svg.addEventListener("dragstart", (event) => event.preventDefault()); // the raster is no file to be dragged away
  svg.addEventListener("wheel", (event) => {
    if (!takesWheel(holder, event)) return;
    event.preventDefault();
    zoom(Math.exp(0.002 * event.deltaY), ...at(event));
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) { left += step[0] * 0.1 * width; top += step[1] * 0.1 * width; draw(); }
    else if (event.key === "+" || event.key === "=") zoom(0.8);
    else if (event.key === "-") zoom(1.25);
    else if (event.key === "0") show(home);
    else return;
    event.preventDefault();
  });

  const button = (text, action, name = text) => make("button", { type: "button", "aria-label": name, onclick: action }, text);
  const views = make("div", { class: "pick" }, button("+", () => zoom(0.7), "nearer"), button("−", () => zoom(1.4), "farther"), button("the walk", () => show(home)), button("the whole model", () => show(whole)), make("span", { class: "note hint", style: "margin:0" }, "Drag to move; Ctrl and wheel, or click first and then wheel, to zoom; arrows, + and − on the keyboard."));
  holder.before(views);
  new ResizeObserver(draw).observe(holder);
  show(home);
}

function layerBoxes() {
  for (const label of all("#map-legend label")) {
    const layer = all("#map-picture [data-layer]").find((node) => node.dataset.layer === label.dataset.for);
    const box = make("input", { type: "checkbox", onchange: (event) => (layer.style.display = event.target.checked ? "" : "none") });
    box.checked = true;
    label.prepend(box);
  }
}

// --- before and after: two of a view's four pictures, one over the other -------------------------------------------
const CHOICES = [["before", "after"], ["after", "photo"], ["before", "photo"], ["after", "error"]];

function slider(figure) {
  const sides = Object.fromEntries(all("[data-side]", figure).map((image) => [image.dataset.side, image]));
  const over = make("img", { class: "over" }), under = make("img");
  const left = make("span", { class: "label l" }), right = make("span", { class: "label r" });
  const frame = make("div", { class: "slide" }, under, over, left, right);
  const range = make("input", { type: "range", min: 0, max: 100, value: 50, oninput: () => move(range.value) });
  const pick = make("div", { class: "pick" });
  function move(value) {
    range.value = value;
    over.style.clipPath = `inset(0 ${100 - value}% 0 0)`;
    frame.style.setProperty("--at", value + "%");
  }
  function choose([a, b], pressed) {
    for (const [image, side, label] of [[over, a, left], [under, b, right]]) {
      image.src = sides[side].src;
      image.alt = sides[side].alt;
      label.textContent = side;
    }
    range.setAttribute("aria-label", `how much of ${a} is seen over ${b}`);
    for (const button of pick.children) button.setAttribute("aria-pressed", button === pressed);
  }
  for (const choice of CHOICES) pick.append(make("button", { type: "button", onclick: (event) => choose(choice, event.target) }, choice.join(" | ")));
  const follow = (event) => {
    const box = frame.getBoundingClientRect();
    move(Math.min(100, Math.max(0, (100 * (event.clientX - box.left)) / box.width)));
  };
  frame.addEventListener("pointerdown", (event) => { frame.setPointerCapture(event.pointerId); follow(event); event.preventDefault(); });
  frame.addEventListener("pointermove", (event) => { if (event.buttons) follow(event); });
  choose(CHOICES[0], pick.children[0]);
  move(50);
  figure.classList.add("slid");
  figure.prepend(frame, range, pick);
}

takeTitles();
layerBoxes();
liveMap();
all("figure.comparison").forEach(slider);
