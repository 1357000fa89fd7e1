// HTML one can choose from and point at.
//   [data-pick="value"]  click, Enter or Space sends the value; arrow keys move among them.
//   [data-hover] on a map: its values (data-z, base64 of float32) are told under the pointer, or
//   with the arrow keys once it has the focus.

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
  root.shown = data.html;
  root.innerHTML = data.html;
  if (focused) root.querySelector(`[data-pick="${focused}"]`)?.focus({ preventScroll: true });
  root.tip.style.display = "none";
  return () => root.tip.remove();
}

function listen(root) {
  root.tip = document.createElement("div");
  root.tip.className = "soa-tip";
  root.tip.setAttribute("role", "status");
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
    } else if (map?.at && move) {
      event.preventDefault();
      tell(root, map, map.at[0] + move[0], map.at[1] + move[1]);
    }
  });
  root.addEventListener("pointermove", (event) => {
    const map = near(event, "[data-hover]");
    if (!map) return;
    const box = map.getBoundingClientRect();
    const n = read(map).labels.length;
    const row = Math.floor(((event.clientY - box.top) / box.height) * n);
    tell(root, map, row, Math.floor(((event.clientX - box.left) / box.width) * n));
  });
  root.addEventListener("pointerout", (event) => {
    const map = near(event, "[data-hover]");
    if (map && !map.contains(event.relatedTarget)) hush(root, map);
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

function tell(root, map, row, column) {
  const { labels, name, beside, values, second } = read(map);
  const n = labels.length;
  row = Math.max(0, Math.min(n - 1, row));
  column = Math.max(0, Math.min(n - 1, column));
  map.at = [row, column];
  const value = values[row * n + column];
  let text = `query ${plain(labels[row])} → key ${plain(labels[column])}\n`;
  if (Number.isNaN(value)) text += "masked";
  else {
    text += `${name} ${shown(value)}`;
    if (second) text += ` · ${beside} ${shown(second[row * n + column])}`;
  }
  const box = map.getBoundingClientRect();
  const side = box.width / n;
  Object.assign(map.querySelector(".cell").style, {
    display: "block",
    left: `${column * side}px`,
    top: `${row * side}px`,
    width: `${side}px`,
    height: `${side}px`,
  });
  const tip = root.tip;
  if (!tip.isConnected) document.body.appendChild(tip);
  tip.textContent = text;
  tip.style.display = "block";
  const left = box.left + (column + 1) * side + 10;
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, box.top + row * side - tip.offsetHeight - 6)}px`;
}

function hush(root, map) {
  root.tip.style.display = "none";
  map.querySelector(".cell").style.display = "none";
}
