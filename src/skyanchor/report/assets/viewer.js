"use strict";
// The interactive scene in the place of its picture: splats (Spark on three.js) before and after the update, cameras, a flight.
(function () {
  const scene3d = DATA.scene;
  if (!scene3d) return;
  const { THREE, OrbitControls, SparkRenderer, SplatMesh, SplatFileType } = Splats3D;
  const holder = document.getElementById("scene-holder");
  const canvas = make("canvas", { id: "scene", tabindex: "0", role: "img", "aria-label": "The scene in 3D. Arrows turn it, + and − come nearer and go back, B switches before and after." });
  let renderer;
  try {
    renderer = new THREE.WebGLRenderer({ canvas, antialias: false, preserveDrawingBuffer: true });
  } catch (error) {
    holder.append(make("p", { class: "note" }, "This browser has no WebGL 2, so the scene cannot be turned."));
    return;
  }
  const stamp = make("span", { class: "stamp", "aria-live": "polite" });
  const buttons = make("div", { class: "pick", id: "scene-buttons" });
  holder.append(canvas, stamp, buttons);
  holder.classList.add("live");
  holder.after(make("p", { class: "note hint" }, "Drag to turn, right drag to move. Ctrl and wheel, or click first and then wheel or pinch, to come nearer; after a click also arrows, + and −, B for before and after."));
  renderer.setClearColor(0xcfd8e3);
  const scene = new THREE.Scene();
  const up = new THREE.Vector3(...scene3d.up);
  const camera = new THREE.PerspectiveCamera(60, 16 / 9, 0.1, 2000);
  camera.up.copy(up);
  let dirty = true, onScreen = true, loaded = false; // drawn only when something changed and the canvas can be seen
  const spark = new SparkRenderer({ renderer, onDirty: () => (dirty = true) });
  scene.add(spark);
  const bytes = Uint8Array.from(atob(scene3d.splats), (letter) => letter.charCodeAt(0));
  const [kept, before, after] = parts();

  function parts() { // left alone by the update; changed, as it was; changed and added, as it is
    let from = 0;
    return scene3d.counts.map((count) => {
      const own = bytes.slice(32 * from, 32 * (from + count));
      from += count;
      if (!count) return null;
      const mesh = new SplatMesh({ fileBytes: own, fileType: SplatFileType.SPLAT });
      scene.add(mesh);
      return mesh;
    });
  }
  let updated = true;
  function showUpdated(on) {
    updated = on;
    if (before) before.visible = !on;
    if (after) after.visible = on;
    stamp.textContent = on ? "after the update" : "before the update";
    for (const button of buttons.querySelectorAll("[data-updated]")) button.setAttribute("aria-pressed", (button.dataset.updated === "true") === on);
    document.body.dataset.sceneShows = on ? "after" : "before";
    dirty = true;
  }

  const vector = (row, at) => new THREE.Vector3(row[at], row[at + 1], row[at + 2]);
  const path = scene3d.path.map((row) => vector(row, 0));
  const marks = new THREE.Group();
  if (path.length > 1) marks.add(new THREE.Line(new THREE.BufferGeometry().setFromPoints(path), new THREE.LineBasicMaterial({ color: 0xe53935 })));
  marks.add(points(path, 0xe53935, 5), points(scene3d.aerial.map((row) => vector(row, 0)), 0x1565c0, 7));
  scene.add(marks);

  function points(list, color, size) {
    return new THREE.Points(new THREE.BufferGeometry().setFromPoints(list), new THREE.PointsMaterial({ color, size, sizeAttenuation: false }));
  }

  // --- looking around ----------------------------------------------------------------------------------------------
  canvas.addEventListener("wheel", (event) => { if (!takesWheel(holder, event)) event.stopImmediatePropagation(); }, true);
  canvas.addEventListener("click", () => canvas.focus({ preventScroll: true }));
  const controls = new OrbitControls(camera, canvas);
  controls.enableDamping = true;
  canvas.style.touchAction = ""; // the stylesheet says: the page scrolls until the scene was tapped
  const views = path.length ? path : scene3d.aerial.map((row) => vector(row, 0));
  const box = new THREE.Box3().setFromPoints(views.length ? views : [new THREE.Vector3()]);
  const centre = box.getCenter(new THREE.Vector3());
  const size = Math.max(20, box.getSize(new THREE.Vector3()).length());

  function fromAir() {
    const side = new THREE.Vector3(0, -1, 0).addScaledVector(up, -up.dot(new THREE.Vector3(0, -1, 0)));
    if (side.length() < 0.1) side.set(1, 0, 0);
    camera.position.copy(centre).addScaledVector(up, 0.6 * size).addScaledVector(side.normalize(), 0.6 * size);
    controls.target.copy(centre);
    controls.update();
  }
  function fromStreet(index) {
    const row = scene3d.path[Math.min(index, scene3d.path.length - 1)];
    camera.position.copy(vector(row, 0));
    controls.target.copy(vector(row, 0)).addScaledVector(vector(row, 3), 5);
    controls.update();
  }
  function turn(yaw, pitch) {
    const offset = camera.position.clone().sub(controls.target);
    const side = new THREE.Vector3().crossVectors(up, offset).normalize();
    const steep = Math.min(Math.max(offset.angleTo(up) + pitch, 0.05), 3.1) - offset.angleTo(up);
    offset.applyAxisAngle(side, steep).applyAxisAngle(up, yaw);
    camera.position.copy(controls.target).add(offset);
    controls.update();
  }
  function nearer(factor) {
    camera.position.sub(controls.target).multiplyScalar(factor).add(controls.target);
    controls.update();
  }
  const KEYS = {
    ArrowLeft: () => turn(-0.1, 0), ArrowRight: () => turn(0.1, 0), ArrowUp: () => turn(0, -0.1), ArrowDown: () => turn(0, 0.1),
    "+": () => nearer(0.9), "=": () => nearer(0.9), "-": () => nearer(1.1), b: () => showUpdated(!updated), B: () => showUpdated(!updated),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : KEYS[event.key];
    if (!action) return;
    flying = false;
    action();
    event.preventDefault();
  });

  let flight = null, flying = false;
  function fly(now) {
    flight ??= now;
    const at = ((now - flight) / 120) % (scene3d.path.length - 1), i = Math.floor(at), t = at - i;
    const a = scene3d.path[i], b = scene3d.path[i + 1];
    camera.position.copy(vector(a, 0)).lerp(vector(b, 0), t);
    controls.target.copy(vector(a, 0).addScaledVector(vector(a, 3), 5)).lerp(vector(b, 0).addScaledVector(vector(b, 3), 5), t);
  }

  const button = (text, action, attributes = {}) => buttons.append(make("button", { type: "button", onclick: action, ...attributes }, text));
  button("before", () => showUpdated(false), { "data-updated": false });
  button("after", () => showUpdated(true), { "data-updated": true });
  button("from the air", () => { flying = false; fromAir(); });
  if (scene3d.path.length > 1) {
    button("from the street", () => { flying = false; fromStreet(scene3d.path.length >> 1); });
    button("fly along the walk", () => { flying = !flying; flight = null; });
  }
  button("cameras on / off", () => { marks.visible = !marks.visible; dirty = true; });
  if (holder.requestFullscreen) button("full screen", () => (document.fullscreenElement ? document.exitFullscreen() : holder.requestFullscreen()));

  function resize() {
    const width = canvas.clientWidth, height = canvas.clientHeight;
    renderer.setPixelRatio(Math.min(window.devicePixelRatio, 1.5));
    renderer.setSize(width, height, false);
    camera.aspect = width / Math.max(1, height);
    camera.updateProjectionMatrix();
    dirty = true;
  }
  new ResizeObserver(resize).observe(canvas);
  new IntersectionObserver(([entry]) => (onScreen = entry.isIntersecting)).observe(canvas);
  controls.addEventListener("change", () => (dirty = true));
  resize();
  fromAir();
  showUpdated(true);
  Promise.all([kept, before, after].filter(Boolean).map((mesh) => mesh.initialized)).then(() => (dirty = loaded = true));
  renderer.setAnimationLoop((now) => {
    if (!onScreen) return;
    if (flying) fly(now);
    controls.update();
    if (!dirty && !spark.sorting && !spark.sortDirty) return; // splats are sorted in the background
    dirty = false;
    renderer.render(scene, camera);
    if (loaded && spark.activeSplats > 0 && !holder.classList.contains("ready")) {
      holder.classList.add("ready"); // the picture goes when there is something to see
      document.body.dataset.sceneReady = "true";
    }
  });
})();
