// Plays the flow: Plotly draws and glides, the controls are plain HTML.
// data: { spec: JSON of {data, frames, layout}, scenes: [{id, label}], start, rev, alt, plotly,
//         element: what is followed, by name {b, t, c}, sizes: of those axes,
//         at: where those names stand in the data of a clicked element }

const SPEEDS = { "½×": 2, "1×": 1, "2×": 0.5 };
const GLIDE = 900; // milliseconds of one move at 1×
const REST = 900; // milliseconds a scene stands while playing
const less = window.matchMedia("(prefers-reduced-motion: reduce)");

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let root = parentElement.querySelector(".flow-root");
  if (!root) {
    root = build(parentElement, Object.keys(data.sizes));
    root.speed = 1;
  }
  root.follow = (place) => setTriggerValue("followed", place);
  root.names = data.at ?? [0, 1, 4];
  for (const [name, size] of Object.entries(data.sizes)) {
    const input = root.querySelector(`.follow [name="${name}"]`);
    input.max = size - 1;
    if (input !== document.activeElement) input.value = data.element[name];
  }
  if (root.rev === data.rev) return;
  root.rev = data.rev;
  const spec = JSON.parse(data.spec);
  root.plot.style.minHeight = `${spec.layout.height}px`;
  root.plot.setAttribute("aria-label", data.alt);
  stop(root);
  rail(root, data);
  library(data.plotly).then((Plotly) => {
    if (root.rev !== data.rev) return; // a later run came while Plotly was loading
    root.Plotly = Plotly;
    root.frames = spec.frames;
    Plotly.react(root.plot, spec.data, spec.layout, { displayModeBar: false });
    mark(root, spec.frames.findIndex((frame) => frame.name === data.start));
    if (!root.listening) {
      root.listening = true;
      root.plot.on("plotly_click", (event) => {
        const point = event.points[0];
        if (point.curveNumber === 0) root.follow(root.names.map((n) => point.customdata[n]).join(","));
      });
    }
  });
}

// One copy of Plotly a page, fetched when first needed.
function library(address) {
  window.shapeOfAttentionPlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(address, document.baseURI).href;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error(`cannot load ${script.src}`));
    document.head.appendChild(script);
  });
  return window.shapeOfAttentionPlotly;
}

function build(parent, names) {
  const root = document.createElement("div");
  root.className = "flow-root soa";
  root.innerHTML = `
    <div class="section"><h2>Flow</h2><div class="follow">follow element
      ${names.map(field).join(" ")} or click one</div></div>
    <div class="plot" role="figure"></div>
    <div class="bar">
      <div class="buttons">
        <button type="button" class="play">▶ play</button>
        <button type="button" class="back">◀ step</button>
        <button type="button" class="on">step ▶</button>
        <span class="speeds" role="group" aria-label="speed"></span>
      </div>
      <div class="rail" role="group" aria-label="scenes"></div>
    </div>`;
  parent.appendChild(root);
  root.plot = root.querySelector(".plot");
  root.querySelector(".follow").addEventListener("change", () => {
    const inputs = [...root.querySelectorAll(".follow input")];
    const place = inputs.map((input) => {
      const value = Math.round(Number(input.value)) || 0;
      input.value = Math.max(0, Math.min(Number(input.max), value));
      return input.value;
    });
    root.follow(place.join(","));
  });
  const press = (selector, action) => {
    root.querySelector(selector).addEventListener("click", action);
  };
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
  root.querySelector(".rail").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    step(root, by);
    root.querySelector('.rail [aria-current="step"]').focus();
  });
  return root;
}

function field(name) {
  return `<label>${name} <input type="number" name="${name}" min="0" step="1"></label>`;
}

// The rail: one stop a scene; dragging along it scrubs.
function rail(root, data) {
  const box = root.querySelector(".rail");
  box.innerHTML = "";
  data.scenes.forEach((scene, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.scene = scene.id;
    button.textContent = scene.label;
    button.addEventListener("click", () => {
      stop(root);
      go(root, index);
    });
    button.addEventListener("pointerenter", (event) => {
      if (event.buttons & 1 && index !== root.at) go(root, index);
    });
    box.appendChild(button);
  });
  mark(root, data.scenes.findIndex((scene) => scene.id === data.start));
}

function mark(root, index) {
  root.at = index;
  [...root.querySelectorAll(".rail button")].forEach((button, n) => {
    button.classList.toggle("past", n <= index);
    if (n === index) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
}

function glide(root) {
  return less.matches ? 0 : GLIDE * root.speed;
}

function go(root, index) {
  if (!root.frames || index < 0 || index >= root.frames.length) return;
  mark(root, index);
  const duration = glide(root);
  const { data, traces } = root.frames[index];
  // An interrupted move rejects; the next has begun by then.
  root.Plotly.animate(root.plot, { data, traces }, {
    mode: "immediate",
    frame: { duration, redraw: false },
    transition: { duration, easing: "cubic-in-out" },
  }).catch(() => {});
}

function step(root, by) {
  stop(root);
  go(root, root.at + by);
}

function play(root) {
  if (!root.frames) return;
  root.playing = true;
  root.querySelector(".play").textContent = "❚❚ pause";
  if (root.at >= root.frames.length - 1) mark(root, -1); // from the start again
  const next = () => {
    if (root.at >= root.frames.length - 1) {
      stop(root);
      return;
    }
    go(root, root.at + 1);
    root.timer = setTimeout(next, glide(root) + REST * root.speed);
  };
  next();
}

function stop(root) {
  clearTimeout(root.timer);
  root.playing = false;
  root.querySelector(".play").textContent = "▶ play";
}
