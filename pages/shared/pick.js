// HTML one can choose from and point at.
//   [data-pick="value"]  click, Enter or Space sends the value; arrow keys move among them.
//   [data-hover] on a map: its values (data-z, base64 of float32) are told under the pointer, or
//   with the arrow keys once it has the focus.
//   [data-zoom] on such a map: boxes and cells can be chosen (zoom.js, read together with this).

const ARROWS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let root = parentElement.querySelector(".pick-root");
  if (!root) {
    root = document.createElement("div");
    root.className = "pick-root";
    parentElement.appendChild(root);
    listen(root);
  }
  root.send = (value) => setTriggerValue("picked", value);
  if (root.shown === data.html) return undefined;
  const active = root.getRootNode().activeElement;
  const focused = root.contains(active) ? active.dataset.pick : undefined;
  const maps = () => [...root.querySelectorAll("[data-zoom]")];
  const map = root.contains(active) ? maps().indexOf(active) : -1;
  const { at, dataset: { hover } } = map >= 0 ? active : { dataset: {} };
  forget(root);
  root.shown = data.html;
  root.innerHTML = data.html;
  root.tip.style.display = "none";
  if (focused) root.querySelector(`[data-pick="${focused}"]`)?.focus({ preventScroll: true });
  else if (maps()[map]) {
    const same = maps()[map];
    same.focus({ preventScroll: true });
    if (at && same.at && same.dataset.hover === hover) tell(root, same, ...at);
  }
  return () => root.tip.remove();
}

function listen(root) {
  root.tip = document.createElement("div");
  root.tip.className = "soa-tip";
  root.tip.setAttribute("role", "status");
  zoomable(root);
  const near = (event, what) => event.target.closest?.(what);
  root.addEventListener("click", (event) => {
    const target = near(event, "[data-pick]");
    if (target) root.send(target.dataset.pick);
  });
  root.addEventListener("keydown", (event) => {
    const choice = near(event, "[data-pick]");
    const map = near(event, "[data-hover]");
    const move = ARROWS[event.key];
    if (choice && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      root.send(choice.dataset.pick);
    } else if (choice && move) {
      event.preventDefault();
      const all = [...root.querySelectorAll("[data-pick]")];
      all[all.indexOf(choice) + move[0] + move[1]]?.focus();
    } else if (map && zoomKey(root, map, event)) {
      return;
    } else if (map?.at && move) {
      event.preventDefault();
      tell(root, map, map.at[0] + move[0], map.at[1] + move[1]);
    }
  });
  root.addEventListener("pointermove", (event) => {
    const map = near(event, "[data-hover]");
    if (map && !(pressing(root) && root.press.moved)) tell(root, map, ...place(map, event));
  });
  root.addEventListener("pointerout", (event) => {
    const map = near(event, "[data-hover]");
    if (map && !map.contains(event.relatedTarget) && !pressing(root)) hush(root, map);
  });
  root.addEventListener("focusin", (event) => {
    const map = near(event, "[data-hover]");
    if (map?.matches(":focus-visible")) tell(root, map, 0, 0);
  });
  root.addEventListener("focusout", (event) => {
    const map = near(event, "[data-hover]");
    if (map) hush(root, map);
  });
}

// What the server sent with a map, decoded once.
function read(map) {
  if (!map.about) {
    const floats = (text) =>
      new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
    map.about = JSON.parse(map.dataset.hover);
    map.about.rows ??= map.about.labels;
    map.about.columns ??= map.about.labels;
    map.about.values = floats(map.dataset.z);
    map.about.second = map.dataset.b ? floats(map.dataset.b) : null;
  }
  return map.about;
}

function shown(value) {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const text = value === 0 ? "0" : value.toPrecision(4);
  return text.replace("-", "−");
}

// Labels are escaped for HTML; as text they are what the user typed.
function plain(label) {
  return new DOMParser().parseFromString(label, "text/html").body.textContent;
}

// Row and column under the pointer, or the nearest.
function place(map, event) {
  const { rows, columns } = read(map);
  const box = map.getBoundingClientRect();
  const within = (share, n) => Math.max(0, Math.min(n - 1, Math.floor(share * n)));
  return [
    within((event.clientY - box.top) / box.height, rows.length),
    within((event.clientX - box.left) / box.width, columns.length),
  ];
}

function tell(root, map, row, column) {
  const { rows, columns, turned, name, beside, values, second, faults } = read(map);
  row = Math.max(0, Math.min(rows.length - 1, row));
  column = Math.max(0, Math.min(columns.length - 1, column));
  map.at = [row, column];
  const at = row * columns.length + column;
  const [query, key] = turned ? [columns[column], rows[row]] : [rows[row], columns[column]];
  let text = `query ${plain(query)} → key ${plain(key)}\n`;
  if (Number.isNaN(values[at])) text += faults?.includes(at) ? `${name} NaN` : "masked";
  else {
    text += `${name} ${shown(values[at])}`;
    if (second) text += ` · ${beside} ${shown(second[at])}`;
  }
  Object.assign(map.querySelector(".cell").style, {
    display: "block",
    left: `${(100 * column) / columns.length}%`,
    top: `${(100 * row) / rows.length}%`,
    width: `${100 / columns.length}%`,
    height: `${100 / rows.length}%`,
  });
  say(root, map, text, row, column);
}

// A text above a cell, at its right.
function say(root, map, text, row, column) {
  const { rows, columns } = read(map);
  const box = map.getBoundingClientRect();
  const tip = root.tip;
  if (!tip.isConnected) document.body.appendChild(tip);
  tip.textContent = text;
  tip.style.display = "block";
  const left = box.left + ((column + 1) * box.width) / columns.length + 10;
  const top = box.top + (row * box.height) / rows.length - tip.offsetHeight - 6;
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function hush(root, map) {
  root.tip.style.display = "none";
  map.querySelector(".cell").style.display = "none";
}
