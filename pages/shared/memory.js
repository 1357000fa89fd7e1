// One step's memory: its elements by index and in storage, the walk through them, and the element
// that is chosen by clicking or by typing.
// data: { title, svg, say, walk, below: trusted HTML, rev,
//         index, offset: of every drawn element in the order of indices, index flat,
//         space, storage: x, y of its cell on either side, flat; side: of a cell,
//         skips: 1 where indices were left out before the next, element, sizes, map }

const SPEEDS = { "½×": 2, "1×": 1, "4×": 0.25 };
const REST = 190; // milliseconds at one element at 1×
const SVG = "http://www.w3.org/2000/svg";

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let root = parentElement.querySelector(".mem-root");
  if (!root) root = build(parentElement);
  root.pick = (index) => setTriggerValue("picked", index.join(","));
  root.type = (place) => setTriggerValue("typed", place.join(","));
  for (const [name, size] of Object.entries(data.sizes)) {
    const input = root.querySelector(`.follow [name="${name}"]`);
    input.max = size - 1;
    if (input !== document.activeElement) input.value = data.element[name];
  }
  root.querySelector(".key-field").hidden = !data.map;
  if (root.rev === data.rev) return () => clearTimeout(root.timer);
  root.rev = data.rev;
  root.data = data;
  root.rank = data.index.length / data.offset.length;
  stop(root);
  root.at = -1;
  root.querySelector("h2").textContent = data.title;
  root.querySelector(".mem-fig").innerHTML = data.svg;
  root.querySelector(".mem-walk").textContent = data.walk;
  root.querySelector(".mem-below").innerHTML = data.below;
  quiet(root);
  return () => clearTimeout(root.timer);
}

function build(parent) {
  const root = document.createElement("div");
  root.className = "mem-root flow-root soa";
  root.innerHTML = `
    <div class="section"><h2></h2><div class="follow">element
      <label>b <input type="number" name="b" min="0" step="1"></label>
      <label>t <input type="number" name="t" min="0" step="1"></label>
      <label>c <input type="number" name="c" min="0" step="1"></label>
      <label class="key-field">key <input type="number" name="key" min="0" step="1"></label>
      <span class="mem-hint">or click one</span></div></div>
    <div class="mem-fig"></div>
    <div class="mem-say" role="status"></div>
    <div class="buttons">
      <button type="button" class="play">▶ walk</button>
      <button type="button" class="back">◀ step</button>
      <button type="button" class="on">step ▶</button>
      <span class="speeds" role="group" aria-label="speed"></span>
    </div>
    <div class="mem-walk"></div>
    <div class="mem-below"></div>`;
  parent.appendChild(root);
  root.speed = 1;
  const fields = [...root.querySelectorAll(".follow input")];
  root.querySelector(".follow").addEventListener("change", () => {
    root.type(fields.map((input) => {
      const value = Math.round(Number(input.value)) || 0;
      input.value = Math.max(0, Math.min(Number(input.max), value));
      return input.value;
    }));
  });
  const press = (selector, action) =>
    root.querySelector(selector).addEventListener("click", action);
  press(".play", () => (root.playing ? stop(root) : play(root)));
  press(".back", () => step(root, -1));
  press(".on", () => step(root, 1));
  for (const [label, factor] of Object.entries(SPEEDS)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-pressed", factor === 1);
    button.addEventListener("click", () => {
      root.speed = factor;
      for (const other of button.parentElement.children) {
        other.setAttribute("aria-pressed", other === button);
      }
    });
    root.querySelector(".speeds").appendChild(button);
  }
  const figure = root.querySelector(".mem-fig");
  figure.addEventListener("click", (event) => {
    const n = under(root, event);
    if (n >= 0) root.pick(indexOf(root, n));
  });
  figure.addEventListener("pointermove", (event) => {
    if (root.playing) return;
    const n = under(root, event);
    figure.style.cursor = n < 0 ? "" : "pointer";
    if (n >= 0) show(root, n, false);
    else quiet(root);
  });
  figure.addEventListener("pointerleave", () => root.playing || quiet(root));
  return root;
}

// Which element's cell, on either side, is under the pointer; -1 where there is none.
function under(root, event) {
  const svg = root.querySelector("svg");
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  const x = (event.clientX - box.left) * scale;
  const y = (event.clientY - box.top) * scale;
  const { space, storage, side, offset } = root.data;
  const half = side / 2 + 1;
  const near = (places, n) =>
    Math.abs(places[2 * n] - x) <= half && Math.abs(places[2 * n + 1] - y) <= half;
  return offset.findIndex((_, n) => near(space, n) || near(storage, n));
}

function indexOf(root, n) {
  return root.data.index.slice(n * root.rank, (n + 1) * root.rank);
}

// Marks element n on both sides and says where it is; on a walk, what is behind it stays marked.
function show(root, n, walking) {
  const { space, storage, side, offset, skips } = root.data;
  const layer = root.querySelector("svg .walk");
  if (!layer.firstChild) {
    for (const name of ["path", "rect", "rect"]) {
      layer.appendChild(document.createElementNS(SVG, name));
    }
    layer.firstChild.setAttribute("class", "trail");
  }
  const [trail, ...frames] = layer.children;
  [space, storage].forEach((places, k) => {
    const far = side / 2 + 1.5;
    frames[k].setAttribute("width", 2 * far);
    frames[k].setAttribute("height", 2 * far);
    frames[k].style.transform =
      `translate(${places[2 * n] - far}px, ${places[2 * n + 1] - far}px)`;
  });
  let passed = "";
  if (walking) {
    const dot = Math.max(1.2, side / 8);
    for (const places of [space, storage]) {
      for (let k = 0; k <= n; k++) {
        passed += `M${places[2 * k] - dot} ${places[2 * k + 1]}h${2 * dot}`;
      }
    }
    trail.style.strokeWidth = 2 * dot;
  }
  trail.setAttribute("d", passed);
  layer.classList.toggle("shown", true);
  layer.classList.toggle("walking", walking);
  let text = `[${indexOf(root, n).join(", ")}] lies at offset ${offset[n].toLocaleString("en")}`;
  if (walking) {
    const by = n ? offset[n] - offset[n - 1] : 0;
    const signed = `${by < 0 ? "−" : "+"}${Math.abs(by).toLocaleString("en")}`;
    text = `${n + 1} of ${offset.length}: ${text}`;
    if (n && skips[n - 1]) text += " · … (left out of the picture)";
    else if (n) text += by === 1 ? " · +1, the next in memory" : ` · ${signed}, a jump`;
  }
  root.querySelector(".mem-say").textContent = text;
}

// Back to the chosen element, or to where the walk stands.
function quiet(root) {
  if (root.at >= 0) {
    show(root, root.at, true);
    return;
  }
  root.querySelector("svg .walk").classList.remove("shown");
  root.querySelector(".mem-say").innerHTML = root.data.say;
}

function step(root, by) {
  stop(root);
  const n = root.at + by;
  if (n >= root.data.offset.length) return;
  root.at = Math.max(-1, n);
  quiet(root);
}

function play(root) {
  if (root.at >= root.data.offset.length - 1) root.at = -1; // from the start again
  root.playing = true;
  root.querySelector(".play").textContent = "❚❚ pause";
  const next = () => {
    if (root.at >= root.data.offset.length - 1) {
      stop(root);
      return;
    }
    root.at += 1;
    show(root, root.at, true);
    root.timer = setTimeout(next, REST * root.speed);
  };
  next();
}

function stop(root) {
  clearTimeout(root.timer);
  root.playing = false;
  root.querySelector(".play").textContent = "▶ walk";
}
