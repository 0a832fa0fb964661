"use strict";
// The interactive scene: splats (Spark on three.js), aerial cameras, the walk and a fly-through along it.
(function () {
  const scene3d = DATA.scene;
  if (!scene3d) return;
  const { THREE, OrbitControls, SparkRenderer, SplatMesh, SplatFileType } = Splats3D;
  const canvas = document.getElementById("scene");
  let renderer;
  try {
    renderer = new THREE.WebGLRenderer({ canvas, antialias: false, preserveDrawingBuffer: true });
  } catch (error) {
    canvas.replaceWith(Object.assign(document.createElement("p"), { className: "note", textContent: "This browser has no WebGL 2, so the 3D scene is not shown." }));
    return;
  }
  renderer.setClearColor(0xcfd8e3);
  const scene = new THREE.Scene();
  const up = new THREE.Vector3(...scene3d.up);
  const camera = new THREE.PerspectiveCamera(60, 16 / 9, 0.1, 2000);
  camera.up.copy(up);
  let dirty = true, onScreen = true; // drawn only when something changed and the canvas can be seen
  scene.add(new SparkRenderer({ renderer, onDirty: () => (dirty = true) }));
  const bytes = Uint8Array.from(atob(scene3d.splats), (letter) => letter.charCodeAt(0));
  const splats = new SplatMesh({ fileBytes: bytes, fileType: SplatFileType.SPLAT });
  scene.add(splats);

  const vector = (row, at) => new THREE.Vector3(row[at], row[at + 1], row[at + 2]);
  const path = scene3d.path.map((row) => vector(row, 0));
  const marks = new THREE.Group();
  if (path.length > 1) marks.add(new THREE.Line(new THREE.BufferGeometry().setFromPoints(path), new THREE.LineBasicMaterial({ color: 0xe53935 })));
  marks.add(points(path, 0xe53935, 5), points(scene3d.aerial.map((row) => vector(row, 0)), 0x1565c0, 7));
  scene.add(marks);

  function points(list, color, size) {
    return new THREE.Points(new THREE.BufferGeometry().setFromPoints(list), new THREE.PointsMaterial({ color, size, sizeAttenuation: false }));
  }

  const controls = new OrbitControls(camera, canvas);
  controls.enableDamping = true;
  const views = path.length ? path : scene3d.aerial.map((row) => vector(row, 0));
  const box = new THREE.Box3().setFromPoints(views.length ? views : [new THREE.Vector3()]);
  const centre = box.getCenter(new THREE.Vector3());
  const size = Math.max(20, box.getSize(new THREE.Vector3()).length());

  function fromAir() {
    flight = null;
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
  let flight = null;
  function fly(now) {
    flight ??= now;
    const at = ((now - flight) / 120) % (scene3d.path.length - 1), i = Math.floor(at), t = at - i;
    const a = scene3d.path[i], b = scene3d.path[i + 1];
    camera.position.copy(vector(a, 0)).lerp(vector(b, 0), t);
    controls.target.copy(vector(a, 0).addScaledVector(vector(a, 3), 5)).lerp(vector(b, 0).addScaledVector(vector(b, 3), 5), t);
  }
  let flying = false;
  const buttons = document.getElementById("scene-buttons");
  const button = (text, action) => buttons.append(make("button", { type: "button", onclick: action }, text));
  button("from the air", () => { flying = false; fromAir(); });
  if (scene3d.path.length > 1) {
    button("from the street", () => { flying = false; fromStreet(scene3d.path.length >> 1); });
    button("fly along the walk", () => { flying = !flying; flight = null; });
  }
  button("cameras on / off", () => { marks.visible = !marks.visible; dirty = true; });

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
  splats.initialized.then(() => { dirty = true; document.body.dataset.sceneReady = "true"; });
  renderer.setAnimationLoop((now) => {
    if (!onScreen) return;
    if (flying) fly(now);
    controls.update();
    if (!dirty) return;
    dirty = false;
    renderer.render(scene, camera);
  });
})();
