// The palette of the theme as custom properties, and the width of the page's column, reported
// whenever it is not the one the server knows.
// data: { palette, known: the width the server draws for, or null }

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const sheet = document.documentElement.style;
  for (const [name, value] of Object.entries(data.palette)) {
    // Setting one again, even to the same, would restyle the whole page.
    if (sheet.getPropertyValue(`--${name}`) !== value) sheet.setProperty(`--${name}`, value);
  }
  const main = document.querySelector('[data-testid="stMainBlockContainer"]');
  watchForLeaving();
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(report, 120);
  };
  const report = () => {
    if (!parentElement.isConnected) return; // of a page that was left
    const style = getComputedStyle(main);
    const inner = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // In steps, so that a scroll bar that comes and goes does not cause a run.
    const width = Math.max(280, Math.floor(inner / 20) * 20);
    if (width === (parentElement.reported ?? data.known)) return;
    // What is sent between the call for another page and its beginning carries the name of this
    // one, and would call it back.
    if (leaving()) return later();
    parentElement.reported = width;
    setStateValue("width", width);
  };
  const observer = new ResizeObserver(later);
  observer.observe(main);
  report();
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}

// Notes, once for all, when a link to another page is followed.
function watchForLeaving() {
  if (window.shapeOfAttentionLeaving) return;
  window.shapeOfAttentionLeaving = { from: "", until: 0 };
  const links = '[data-testid="stSidebarNavLink"], [data-testid="stPageLink"] a';
  document.addEventListener(
    "click",
    (event) => {
      if (!event.target.closest?.(links)) return;
      const until = performance.now() + 5000; // by then the server is not coming
      window.shapeOfAttentionLeaving = { from: location.pathname, until };
    },
    true,
  );
}

// Whether another page has been asked for and has not begun.
function leaving() {
  const { from, until } = window.shapeOfAttentionLeaving;
  return performance.now() < until && location.pathname === from;
}
