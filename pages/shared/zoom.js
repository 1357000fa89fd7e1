// Boxes on a map: [data-zoom] on what has [data-hover] (see pick.js, which this is read with).
//   A drag sends "box:r0,r1,c0,c1" in cells, the ends not included; a click "cell:r,c"; a double
//   click "reset". Escape gives a drag up. By keyboard, Shift and arrows draw a box, Enter sends
//   it, or the cell where none is drawn. One gesture sends one thing.

const STILL = { mouse: 4, pen: 6, touch: 9 }; // pixels a press may move and still be a click
const TWICE = 250; // milliseconds in which a second click makes a double click

function zoomable(root) {
  root.addEventListener("pointerdown", (event) => {
    const map = event.target.closest?.("[data-zoom]");
    if (!map || event.button !== 0 || !event.isPrimary) return;
    clearTimeout(root.later);
    unselect(map);
    const from = place(map, event);
    root.press = { map, from, id: event.pointerId, x: event.clientX, y: event.clientY };
    map.setPointerCapture(event.pointerId); // the drag goes on outside of the picture
    addEventListener("keydown", root.giveUp, true);
  });
  root.addEventListener("pointermove", (event) => {
    const press = root.press;
    if (!pressing(root) || event.pointerId !== press.id) return;
    const far = Math.hypot(event.clientX - press.x, event.clientY - press.y);
    press.moved ||= far > (STILL[event.pointerType] ?? STILL.mouse);
    if (press.moved) select(root, press.map, press.from, place(press.map, event));
  });
  root.addEventListener("pointerup", (event) => {
    const press = root.press;
    if (!pressing(root) || event.pointerId !== press.id) return;
    end(root);
    if (press.moved) sendBox(root, press.map);
  });
  for (const lost of ["pointercancel", "lostpointercapture"]) {
    root.addEventListener(lost, () => pressing(root) && cancel(root));
  }
  root.addEventListener("click", (event) => {
    const map = event.target.closest?.("[data-zoom]");
    if (!map || (event.detail && (root.press?.moved || root.press?.cancelled))) return;
    clearTimeout(root.later);
    if (event.detail > 1) {
      root.send("reset");
      return;
    }
    const cell = event.detail ? place(map, event) : (map.at ?? [0, 0]);
    const choose = () => root.send(`cell:${cell}`);
    // On a part of the map it may be the first of two clicks; on the whole, two lead nowhere else.
    if (map.dataset.zoom === "inside" && event.detail) root.later = setTimeout(choose, TWICE);
    else choose();
  });
  root.giveUp = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation(); // it closes nothing else
    cancel(root);
  };
}

function pressing(root) {
  return Boolean(root.press) && !root.press.over;
}

// The press stays until the next one: the click that may follow it asks what it was.
function end(root) {
  root.press.over = true;
  removeEventListener("keydown", root.giveUp, true);
}

function cancel(root) {
  const { map, id } = root.press;
  root.press.cancelled = true;
  end(root);
  unselect(map);
  hush(root, map);
  if (map.hasPointerCapture(id)) map.releasePointerCapture(id);
}

// New content: what was pressed or about to be sent belongs to the old.
function forget(root) {
  clearTimeout(root.later);
  if (pressing(root)) cancel(root);
}

function select(root, map, from, to) {
  const { rows, columns } = read(map);
  map.box = { from, to };
  const [r0, r1, c0, c1] = corners(map);
  Object.assign(map.querySelector(".band").style, {
    display: "block",
    left: `${(100 * c0) / columns.length}%`,
    top: `${(100 * r0) / rows.length}%`,
    width: `${(100 * (c1 - c0)) / columns.length}%`,
    height: `${(100 * (r1 - r0)) / rows.length}%`,
  });
  map.querySelector(".cell").style.display = "none";
  const span = (labels, a, b) =>
    b - a === 1 ? plain(labels[a]) : `${plain(labels[a])} … ${plain(labels[b - 1])}`;
  say(root, map, `queries ${span(rows, r0, r1)}\nkeys ${span(columns, c0, c1)}`, r0, c1 - 1);
}

function unselect(map) {
  map.box = null;
  map.querySelector(".band").style.display = "none";
}

// (first row, row after the last, first column, column after the last) of the box drawn.
function corners(map) {
  const { from, to } = map.box;
  return [0, 1].flatMap((axis) => [
    Math.min(from[axis], to[axis]),
    Math.max(from[axis], to[axis]) + 1,
  ]);
}

// The box stays in sight until the new picture comes.
function sendBox(root, map) {
  clearTimeout(root.later);
  root.send(`box:${corners(map)}`);
  hush(root, map);
}

// Whether the key meant a box or a cell.
function zoomKey(root, map, event) {
  if (!("zoom" in map.dataset) || !map.at) return false;
  const move = ARROWS[event.key];
  if (move && event.shiftKey) {
    const from = map.box?.from ?? map.at;
    const [row, column] = map.box?.to ?? map.at;
    tell(root, map, row + move[0], column + move[1]);
    select(root, map, from, map.at);
  } else if (event.key === "Enter") {
    if (map.box) sendBox(root, map);
    else root.send(`cell:${map.at}`);
  } else if (event.key === "Escape" && map.box) {
    unselect(map);
    tell(root, map, ...map.at);
  } else {
    if (move && map.box) unselect(map);
    return false;
  }
  event.preventDefault();
  return true;
}
