"use strict";
// Fills the page from the embedded JSON. No framework, no network.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

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

function shape(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

function section(id, title, note) {
  const node = make("section", { id }, make("h2", {}, title), note ? make("p", { class: "note" }, note) : null);
  byId("main").append(node);
  byId("contents").append(make("a", { href: "#" + id }, title));
  return node;
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : digits);
}

const words = (name) => name.replaceAll(/[_-]/g, " ");
const UNITS = { m: "m", deg: "°", px: "px", s: "s" };
const SHORT = { ate: "ATE", rpe_t: "RPE-t", rpe_r: "RPE-r" };
// A figure's name for people: ate_m -> ATE [m].
function label(name) {
  const at = name.lastIndexOf("_"), unit = at > 0 ? UNITS[name.slice(at + 1)] : undefined;
  const stem = unit ? name.slice(0, at) : name;
  return (SHORT[stem] ?? words(stem)) + (unit ? ` [${unit}]` : "");
}

// --- tooltip: hover, focus or tap ---------------------------------------------------------------------------------
const tip = byId("tip");
function explain(node, text, byKeyboard = true) {
  const show = (event) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = node.getBoundingClientRect();
    const x = (event.clientX ?? box.left) + window.scrollX + 14;
    const y = (event.clientY ?? box.bottom) + window.scrollY + 14;
    tip.style.left = Math.max(8, Math.min(x, window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = y + "px";
    event.stopPropagation?.();
  };
  for (const kind of ["pointerenter", "click", "focus"]) node.addEventListener(kind, show);
  for (const kind of ["pointerleave", "blur"]) node.addEventListener(kind, () => (tip.hidden = true));
  node.setAttribute("aria-label", text);
  if (byKeyboard) node.setAttribute("tabindex", "0");
}
document.addEventListener("click", () => (tip.hidden = true));

// --- head ------------------------------------------------------------------------------------------------------------
function head() {
  byId("title").textContent = DATA.title;
  const verdict = byId("verdict");
  verdict.textContent = DATA.verdict;
  verdict.classList.add(DATA.status);
  if (DATA.warnings.length) verdict.after(make("ul", { class: "warnings" }, ...DATA.warnings.map((text) => make("li", {}, text))));
  const accepted = DATA.groups.filter((group) => group.accepted).length;
  const posed = DATA.map.frames.filter((frame) => frame.x !== null).length;
  const anchorsOnly = DATA.reached === "anchors";
  const asked = anchorsOnly ? DATA.groups.reduce((sum, group) => sum + group.last_frame - group.first_frame + 1, 0) : DATA.map.frames.length;
  const rows = [["anchor groups accepted", `${accepted} / ${DATA.groups.length}`]];
  rows.push([anchorsOnly ? "anchor frames with a pose" : "frames with a pose", `${posed} / ${asked}`]);
  const sigmas = DATA.map.frames.map((frame) => frame.sigma_m).filter((sigma) => sigma !== null).sort((a, b) => a - b);
  if (sigmas.length) rows.push(["median position sigma", number(sigmas[sigmas.length >> 1]) + " m"]);
  const ate = anchorsOnly ? DATA.figures.anchors?.ate_m : DATA.figures.trajectory?.ate_m;
  if (ate !== undefined && ate !== null) rows.push(["error against truth (ATE)", number(ate) + " m"]);
  for (const [table, label] of [["render from the street", "street photos"], ["render from the air", "aerial photos"]]) {
    const figures = DATA.figures[table];
    if (figures) rows.push([`${label}, held out`, `${figures["psnr before"]?.toFixed(1)} → ${figures["psnr after"]?.toFixed(1)} dB`]);
  }
  const total = Object.values(DATA.seconds).reduce((sum, seconds) => sum + seconds, 0);
  if (total) rows.push(["time in all", duration(total)]);
  byId("headline").append(tiles(rows));
}

function tiles(rows) {
  return make("dl", { class: "tiles" }, ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function duration(seconds) {
  if (seconds < 120) return `${number(seconds, 1)} s`;
  return seconds < 7200 ? `${number(seconds / 60, 1)} min` : `${number(seconds / 3600, 1)} h`;
}

// --- map -------------------------------------------------------------------------------------------------------------
const STOPS = [[0.05, "#1e8e3e"], [0.15, "#7cb342"], [0.3, "#f9a825"], [Infinity, "#d93025"]];
const sigmaColour = (sigma) => (sigma === null ? "#888" : STOPS.find(([limit]) => sigma <= limit)[1]);

function figuresText(figures) {
  return Object.entries(figures).map(([key, value]) => `${label(key)}: ${number(value)}`).join("\n");
}

function drawMap() {
  const part = section("map", "Map", "The aerial model from above with what was placed on it. Hover over or tap a mark to see its figures; refused anchor groups carry the reason.");
  const holder = make("div", { class: "map" }), row = make("div", { class: "legend" });
  const whole = DATA.map.extent, walk = walkBox();
  const off = new Set(); // layers switched off
  const show = (box) => { holder.replaceChildren(mapPicture(box, off, row)); };
  const views = make("div", { class: "pick" });
  for (const [name, box] of [["the walk", walk], ["the whole model", whole]]) {
    if (box) views.append(make("button", { type: "button", "aria-pressed": box === (walk ?? whole), onclick: (event) => { show(box); for (const button of views.children) button.setAttribute("aria-pressed", button === event.target); } }, name));
  }
  show(walk ?? whole);
  part.append(...[walk ? views : null, holder, row, placelessGroups(), missingNote()].filter(Boolean));
}

// The box around walk and truth with room to see where it lies; null when that is most of the model anyway.
function walkBox() {
  const places = [...DATA.map.frames.filter((frame) => frame.x !== null).map((frame) => [frame.x, frame.y]), ...DATA.map.truth];
  if (!places.length) return null;
  const [xs, ys] = [places.map(([x]) => x), places.map(([, y]) => y)];
  const [x0, y0, x1, y1] = DATA.map.extent;
  const box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  const half = 0.62 * Math.max(box[2] - box[0], box[3] - box[1], 30) + 5, shape = Math.min(1, (y1 - y0) / (x1 - x0));
  const [cx, cy] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2], tall = Math.max(half * shape, (box[3] - box[1]) / 2 + 5);
  return 2 * half > 0.75 * (x1 - x0) ? null : [cx - half, cy - tall, cx + half, cy + tall];
}

function mapPicture([x0, y0, x1, y1], off, row) {
  const width = 1000, scale = width / (x1 - x0), height = (y1 - y0) * scale;
  const unit = Math.min(2.4, Math.max(1, 1000 / Math.max(320, document.documentElement.clientWidth - 40))); // marks keep their size on a phone
  const px = (x) => (x - x0) * scale, py = (y) => (y1 - y) * scale;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Map of the scene" });
  const [rx0, ry0, rx1, ry1] = DATA.map.extent;
  if (DATA.map.raster) shape("image", { href: DATA.map.raster, x: px(rx0), y: py(ry1), width: (rx1 - rx0) * scale, height: (ry1 - ry0) * scale, preserveAspectRatio: "none" }, svg);
  const layers = {};
  const layer = (name, colour) => (layers[name] = { node: shape("g", { "data-layer": name }, svg), colour }).node;
  const aerial = layer("aerial cameras", "#1565c0");
  for (const camera of DATA.map.cameras) {
    const mark = shape("path", { d: `M${px(camera.x)} ${py(camera.y) - 5 * unit}l${5 * unit} ${9 * unit}h${-10 * unit}z`, fill: "#1565c0", stroke: "#fff", opacity: 0.85 }, aerial);
    explain(mark, `aerial photo ${camera.name}`, false);
  }
  if (DATA.map.truth.length) shape("polyline", { points: DATA.map.truth.map(([x, y]) => `${px(x)},${py(y)}`).join(" "), fill: "none", stroke: "#8e24aa", "stroke-width": 7 * unit, opacity: 0.5 }, layer("truth", "#8e24aa"));
  drawWalk(layer(DATA.reached === "anchors" ? "anchors (colour = position sigma)" : "trajectory (colour = position sigma)", "#7cb342"), px, py, unit);
  drawGroupMarks(layer("anchor groups", "#1e8e3e"), px, py, unit);
  scaleBar(svg, width, height, scale, unit);
  row.replaceChildren(...legend(layers, off));
  return svg;
}

function drawWalk(walk, px, py, unit) {
  const posed = DATA.map.frames.filter((frame) => frame.x !== null);
  posed.forEach((frame, i) => {
    const next = posed[i + 1];
    if (next && next.index === frame.index + 1) {
      shape("line", { x1: px(frame.x), y1: py(frame.y), x2: px(next.x), y2: py(next.y), stroke: sigmaColour(frame.sigma_m), "stroke-width": 4 * unit, "stroke-linecap": "round" }, walk);
    }
    const dot = shape("circle", { cx: px(frame.x), cy: py(frame.y), r: 3.5 * unit, fill: sigmaColour(frame.sigma_m), stroke: "#fff", "stroke-width": 0.7 }, walk);
    explain(dot, `frame ${frame.index} ${frame.name}\n${frame.support}, sigma ${number(frame.sigma_m)} m`, false);
  });
}

function drawGroupMarks(layer, px, py, unit) {
  for (const group of DATA.groups.filter((group) => group.x !== null)) {
    const colour = group.left_out ? "#e67c00" : group.accepted ? "#1e8e3e" : "#d93025";
    const mark = shape("g", { class: "group", "data-group": group.index }, layer);
    shape("circle", { cx: px(group.x), cy: py(group.y), r: 10 * unit, fill: group.accepted ? colour : "#fff", stroke: group.accepted ? "#fff" : colour, "stroke-width": (group.accepted ? 1.5 : 3) * unit }, mark);
    shape("text", { x: px(group.x), y: py(group.y) + 4 * unit, "text-anchor": "middle", "font-size": 11 * unit, "font-weight": 700, fill: group.accepted ? "#fff" : colour }, mark).textContent = group.index;
    explain(mark, groupText(group));
  }
}

function placelessGroups() {
  const placeless = DATA.groups.filter((group) => group.x === null);
  if (!placeless.length) return null;
  const chips = placeless.map((group) => {
    const chip = make("span", { class: "tag no", "data-group": group.index }, `group ${group.index}: ${words(group.reason)}`);
    explain(chip, groupText(group));
    return chip;
  });
  return make("p", { class: "chips" }, "Refused and not on the map, for they have no place: ", ...chips);
}

function groupText(group) {
  const title = `group ${group.index}, frames ${group.first_frame}–${group.last_frame}: ${verdictOf(group)[0]}`;
  return [title, whyText(group), figuresText(group.figures)].filter(Boolean).join("\n");
}

function whyText(group) {
  if (group.accepted) return group.left_out;
  const remedy = group.remedy ? `\nTry: ${group.remedy}.` : "";
  return `${words(group.reason)}${group.meaning ? ": " + group.meaning : ""}. ${group.detail}${remedy}`;
}

function scaleBar(svg, width, height, scale, unit) {
  const metres = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].filter((m) => m * scale < width / 4).pop() ?? 1;
  const y = height - 18, bar = { d: `M20 ${y - 5 * unit}v${5 * unit}h${metres * scale}v${-5 * unit}`, fill: "none" };
  shape("path", { ...bar, stroke: "#fff", "stroke-width": 5 * unit }, svg);
  shape("path", { ...bar, stroke: "#111", "stroke-width": 2 * unit }, svg);
  shape("text", { x: 26, y: y - 6 * unit, "font-size": 14 * unit, fill: "#111", stroke: "#fff", "stroke-width": 3 * unit, "paint-order": "stroke" }, svg).textContent = `${metres} m`;
}

function legend(layers, off) {
  const row = [];
  for (const [name, { node, colour }] of Object.entries(layers)) {
    const apply = (on) => { node.style.display = on ? "" : "none"; on ? off.delete(name) : off.add(name); };
    const box = make("input", { type: "checkbox", onchange: (event) => apply(event.target.checked) });
    box.checked = !off.has(name);
    apply(box.checked);
    row.push(make("label", {}, box, make("span", { class: "key", style: `background:${colour}` }), name));
  }
  STOPS.forEach(([limit, colour], i) => {
    const text = Number.isFinite(limit) ? `≤ ${limit} m` : `> ${STOPS[i - 1][0]} m`;
    row.push(make("span", {}, make("span", { class: "key", style: `background:${colour}` }), " " + text));
  });
  return row;
}

function missingNote() {
  const missing = DATA.map.frames.filter((frame) => frame.x === null);
  if (!missing.length) return null;
  const reasons = {};
  for (const frame of missing) (reasons[frame.reason || "no reason recorded"] ??= []).push(frame.index);
  const list = make("ul", {});
  for (const [reason, frames] of Object.entries(reasons)) list.append(make("li", {}, `${frames.length} frames (${ranges(frames)}): ${reason}`));
  return make("div", {}, make("h3", {}, "Frames without a pose"), list);
}

function ranges(numbers) {
  const parts = [];
  for (const n of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([a, b]) => (a === b ? a : `${a}–${b}`)).join(", ");
}

// --- tables ----------------------------------------------------------------------------------------------------------
function table(columns, rows) {
  const cell = (value) => (typeof value === "number" || value === null ? make("td", { class: "n" }, number(value)) : make("td", {}, value));
  const numeric = (i) => rows.every((row) => typeof row[i] === "number" || row[i] === null);
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...columns.map((column, i) => make("th", { class: numeric(i) ? "n" : "" }, column)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))))));
}

function figureColumns(rows) {
  const names = [];
  for (const row of rows) for (const key of Object.keys(row.figures)) if (!names.includes(key)) names.push(key);
  return names;
}

const verdictOf = (group) => (group.left_out ? ["left out", "part"] : group.accepted ? ["accepted", "ok"] : ["refused", "no"]);
const verdictTag = (group) => make("span", { class: "tag " + verdictOf(group)[1] }, verdictOf(group)[0]);

function drawGroups() {
  if (!DATA.groups.length) return;
  const part = section("groups", "Anchor groups", "Short runs of frames that were localised against the aerial photos. A refused group gets no pose: the walk is then held by the other groups.");
  const keys = figureColumns(DATA.groups).slice(0, 8);
  const rows = DATA.groups.map((group) => [
    group.index, `${group.first_frame}–${group.last_frame}`,
    verdictTag(group),
    make("div", { class: whyText(group) ? "why" : "" }, whyText(group)), ...keys.map((key) => group.figures[key] ?? null)]);
  const told = DATA.groups.some(whyText); // no empty column where there is nothing to tell
  const columns = ["#", "frames", "verdict", ...(told ? ["why"] : []), ...keys.map(label)];
  part.append(table(columns, told ? rows : rows.map((row) => row.filter((_, i) => i !== 3))));
  for (const group of DATA.groups.filter((group) => group.attempts.length)) {
    part.append(make("details", {}, make("summary", {}, `group ${group.index}: ${group.attempts.length} earlier attempt${group.attempts.length > 1 ? "s" : ""}`), make("ul", {}, ...group.attempts.map((text) => make("li", {}, text)))));
  }
}

function drawSubmaps() {
  if (!DATA.submaps.length) return;
  const part = section("submaps", "Submaps", "Closure error: where the walk arrived at the rear anchors before it was held to them. It is the drift of the open walk.");
  const keys = figureColumns(DATA.submaps);
  part.append(table(["#", "frames", ...keys.map(label)], DATA.submaps.map((submap) => [submap.index, `${submap.first_frame}–${submap.last_frame}`, ...keys.map((key) => submap.figures[key] ?? null)])));
}

function drawFigures() {
  const tables = Object.entries(DATA.figures).filter(([, figures]) => Object.keys(figures).length);
  if (!tables.length) return;
  const part = section("figures", "Figures");
  for (const [title, figures] of tables) part.append(make("h3", {}, words(title)), tiles(Object.entries(figures).map(([name, value]) => [label(name), number(value)])));
}

// --- pictures --------------------------------------------------------------------------------------------------------
function slider(comparison) {
  const over = make("img", { class: "over", src: comparison.before, alt: "before" });
  const under = make("img", { src: comparison.after, alt: "after" });
  const left = make("span", { class: "label l" }, "before"), right = make("span", { class: "label r" }, "after");
  const frame = make("div", { class: "slide" }, under, over, left, right);
  const move = (value) => { over.style.clipPath = `inset(0 ${100 - value}% 0 0)`; frame.style.setProperty("--at", value + "%"); };
  const range = make("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "before / after", oninput: (event) => move(event.target.value) });
  move(50);
  const choices = [["before", "after"], ["after", "photo"], ["before", "photo"], ["after", "error"]];
  const pick = make("div", { class: "pick" });
  for (const [a, b] of choices) {
    pick.append(make("button", { type: "button", "aria-pressed": a === "before" && b === "after", onclick: (event) => {
      over.src = comparison[a]; under.src = comparison[b];
      left.textContent = a; right.textContent = b;
      for (const button of pick.children) button.setAttribute("aria-pressed", button === event.target);
    } }, `${a} | ${b}`));
  }
  const caption = `${comparison.name}: PSNR ${number(comparison.psnr_before, 2)} → ${number(comparison.psnr_after, 2)} dB`;
  return make("figure", { class: "comparison" }, frame, range, pick, make("figcaption", {}, caption));
}

function drawComparisons() {
  for (const [kind, title] of [["ground", "From the street"], ["aerial", "From the air"]]) {
    const views = DATA.comparisons.filter((comparison) => comparison.kind === kind);
    if (!views.length) continue;
    const part = section(kind, title, "Held-out views, never used in training. Drag the slider; the buttons choose what lies on either side: renders before and after the update, the real photo, the error map (bright = 64 grey levels or more).");
    part.append(make("div", { class: "grid" }, ...views.map(slider)));
  }
}

function drawMatches() {
  if (!DATA.matches.length) return;
  const part = section("matches", "Cross-view matches", "What tied each anchor group to the aerial photos: a street photo above, the part of an aerial photo that shows the same place below. Some of the matches as they were found; green ones agree with the pose, red ones were thrown out. Point at a line to see how far off it is.");
  for (const group of DATA.groups) {
    const pictures = DATA.matches.filter((picture) => picture.group === group.index);
    if (!pictures.length) continue;
    part.append(make("h3", {}, `Group ${group.index}, frames ${group.first_frame}–${group.last_frame} `, verdictTag(group)));
    if (whyText(group)) part.append(make("p", { class: "note" }, whyText(group)));
    part.append(make("div", { class: "grid" }, ...pictures.map(matchFigure)));
  }
}

function matchFigure(picture) {
  const gap = 8, [w, h] = picture.street_size, [aw, ah] = picture.aerial_size, top = h + gap;
  const good = picture.lines.filter((line) => line.agrees).length;
  const caption = `street ${picture.frame}, aerial ${picture.aerial_name}: ${good} of ${picture.lines.length} shown agree`;
  const svg = shape("svg", { viewBox: `0 0 ${Math.max(w, aw)} ${top + ah}`, role: "img", "aria-label": caption, class: "matches" });
  shape("image", { href: picture.street, x: 0, y: 0, width: w, height: h }, svg);
  shape("image", { href: picture.aerial, x: 0, y: top, width: aw, height: ah }, svg);
  const order = [...picture.lines].sort((a, b) => a.agrees - b.agrees);
  for (const line of order) {
    const mark = shape("g", { class: line.agrees ? "good" : "bad" }, svg);
    const ends = { x1: line.street_x, y1: line.street_y, x2: line.aerial_x, y2: top + line.aerial_y };
    shape("line", { ...ends, class: "touch" }, mark);
    shape("line", ends, mark);
    shape("circle", { cx: ends.x1, cy: ends.y1, r: 3.5 }, mark);
    shape("circle", { cx: ends.x2, cy: ends.y2, r: 3.5 }, mark);
    explain(mark, `${line.agrees ? "agrees" : "thrown out"}, ${number(line.residual_px, 1)} px off in the street photo`, false);
  }
  return make("figure", {}, svg, make("figcaption", {}, caption));
}

// --- curves and times ------------------------------------------------------------------------------------------------
const PALETTE = ["#1565c0", "#e67c00", "#1e8e3e", "#8e24aa", "#c5221f", "#00838f"];
function drawCurves() {
  if (!DATA.curves.length) return;
  const part = section("curves", "PSNR while training", "Held-out views, dB.");
  const all = DATA.curves.flatMap((curve) => curve.x.map((x, i) => [x, curve.y[i]])).filter(([, y]) => y !== null);
  const [xMin, xMax] = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))];
  const [yMin, yMax] = [Math.floor(Math.min(...all.map(([, y]) => y))), Math.ceil(Math.max(...all.map(([, y]) => y)))];
  const px = (x) => 50 + (940 * (x - xMin)) / (xMax - xMin || 1), py = (y) => 290 - (270 * (y - yMin)) / (yMax - yMin || 1);
  const svg = shape("svg", { viewBox: "0 0 1000 320", role: "img", "aria-label": "PSNR curves" });
  const step = Math.max(1, Math.ceil((yMax - yMin) / 8));
  for (let y = yMin; y <= yMax; y += step) {
    shape("line", { x1: 50, x2: 990, y1: py(y), y2: py(y), stroke: "currentColor", opacity: 0.15 }, svg);
    shape("text", { x: 42, y: py(y) + 4, "text-anchor": "end", "font-size": 13, fill: "currentColor" }, svg).textContent = y;
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const x = xMin + share * (xMax - xMin);
    shape("text", { x: px(x), y: 312, "text-anchor": "middle", "font-size": 13, fill: "currentColor" }, svg).textContent = Math.round(x);
  }
  const row = make("div", { class: "legend" });
  DATA.curves.forEach((curve, i) => {
    const colour = PALETTE[i % PALETTE.length];
    shape("polyline", { points: curve.x.map((x, k) => `${px(x)},${py(curve.y[k])}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2.5 }, svg);
    row.append(make("span", {}, make("span", { class: "key", style: `background:${colour}` }), " " + curve.label));
  });
  part.append(make("div", { class: "map" }, svg), row);
}

function drawTimes() {
  const entries = Object.entries(DATA.seconds);
  if (!entries.length) return;
  const part = section("times", "Times");
  const most = Math.max(...entries.map(([, seconds]) => seconds));
  const rows = entries.map(([stage, seconds]) => [stage, duration(seconds), make("div", { class: "bars" }, make("div", { class: "bar", style: `width:${(100 * seconds) / most}%` }))]);
  part.append(table(["stage", "time", ""], rows));
}

function drawSettings() {
  const part = section("settings", "Settings and versions", "Enough to make this run again.");
  if (Object.keys(DATA.versions).length) part.append(table(Object.keys(DATA.versions), [Object.values(DATA.versions)]));
  part.append(make("details", {}, make("summary", {}, "all settings"), make("pre", {}, JSON.stringify(DATA.settings, null, 2))));
}

function drawScene() {
  if (!DATA.scene) return;
  const text = `${DATA.scene.shown.toLocaleString("en")} of ${DATA.scene.total.toLocaleString("en")} splats. Drag to turn, wheel or pinch to come nearer, right drag to move.`;
  const part = section("scene3d", "The scene in 3D", text);
  part.append(make("canvas", { id: "scene" }), make("div", { class: "pick", id: "scene-buttons" }));
}

head();
drawMap();
drawScene();
drawComparisons();
drawGroups();
drawMatches();
drawSubmaps();
drawFigures();
drawCurves();
drawTimes();
drawSettings();
