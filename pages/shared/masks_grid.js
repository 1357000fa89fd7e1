// A mask whose cells are painted: click, or drag across several with the mouse; arrow keys move,
// Space or Enter turns a cell. A stroke is sent when the pointer is lifted, with all before it that
// the server has not said it has: of two messages in one run Streamlit keeps the last.
//   [data-cell="query,key"] inside [data-columns]; data.ack is the last stroke the server has.

const STEP = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let root = parentElement.querySelector(".mk-root");
  if (!root) {
    root = document.createElement("div");
    root.className = "mk-root";
    root.strokes = [];
    root.last = 0;
    parentElement.appendChild(root);
    listen(root);
  }
  root.send = (keep, cells) => {
    root.shown = undefined; // what is painted here is a guess until the server has drawn it
    root.last = Math.max(Date.now(), root.last + 1);
    root.strokes.push({ id: root.last, keep, cells });
    setTriggerValue("painted", JSON.stringify(root.strokes));
  };
  root.strokes = root.strokes.filter((stroke) => stroke.id > data.ack);
  if (root.shown === data.html || root.stroke) return;
  const active = root.getRootNode().activeElement;
  const at = root.contains(active) ? active.dataset.cell : undefined;
  root.shown = data.html;
  root.innerHTML = data.html;
  for (const { keep, cells } of root.strokes) {
    root.shown = undefined;
    for (const at of cells) {
      const cell = root.querySelector(`[data-cell="${at}"]`);
      if (cell) turn(cell, keep);
    }
  }
  const same = at && root.querySelector(`[data-cell="${at}"]`);
  if (same) reach(root, same);
}

function reach(root, cell) {
  root.querySelectorAll('[data-cell][tabindex="0"]').forEach((one) => (one.tabIndex = -1));
  cell.tabIndex = 0;
  cell.focus({ preventScroll: true });
}

function turn(cell, keep) {
  cell.classList.toggle("on", keep);
  cell.classList.toggle("off", !keep);
  cell.setAttribute("aria-checked", String(keep));
}

const place = (cell) => cell.dataset.cell.split(",").map(Number);

function listen(root) {
  const under = (event) => {
    const found = root.getRootNode().elementFromPoint?.(event.clientX, event.clientY);
    return found?.closest?.("[data-cell]");
  };
  const paint = (cell) => {
    const { keep, cells } = root.stroke;
    if (cells.has(cell.dataset.cell)) return;
    cells.add(cell.dataset.cell);
    turn(cell, keep);
  };
  const end = () => {
    const { stroke } = root;
    if (!stroke) return;
    root.stroke = undefined;
    root.send(stroke.keep, [...stroke.cells].map((text) => text.split(",").map(Number)));
  };
  root.addEventListener("pointerdown", (event) => {
    const cell = event.target.closest?.("[data-cell]");
    // A finger scrolls the page; it turns single cells, by the click that follows.
    if (!cell || event.button !== 0 || event.pointerType === "touch") return;
    event.preventDefault();
    reach(root, cell);
    root.stroke = { keep: !cell.classList.contains("on"), cells: new Set() };
    root.setPointerCapture(event.pointerId);
    paint(cell);
  });
  root.addEventListener("pointermove", (event) => {
    if (!root.stroke) return;
    const cell = under(event);
    if (cell && root.contains(cell)) paint(cell);
  });
  root.addEventListener("pointerup", end);
  root.addEventListener("pointercancel", end);
  root.addEventListener("click", (event) => {
    const cell = event.target.closest?.("[data-cell]");
    if (!cell || event.pointerType !== "touch") return;
    const keep = !cell.classList.contains("on");
    turn(cell, keep);
    root.send(keep, [place(cell)]);
  });
  root.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.("[data-cell]");
    if (!cell) return;
    const move = STEP[event.key];
    if (move) {
      event.preventDefault();
      const [query, key] = place(cell);
      const next = root.querySelector(`[data-cell="${query + move[0]},${key + move[1]}"]`);
      if (next) reach(root, next);
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      const keep = !cell.classList.contains("on");
      turn(cell, keep);
      root.send(keep, [place(cell)]);
    }
  });
}
