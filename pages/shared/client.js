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
  const app = document.querySelector('[data-testid="stApp"]');
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(report, 120);
  };
  const report = () => {
    const style = getComputedStyle(main);
    const inner = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // In steps, so that a scroll bar that comes and goes does not cause a run.
    const width = Math.max(280, Math.floor(inner / 20) * 20);
    if (width === (parentElement.reported ?? data.known)) return;
    // Another page may just have been asked for: what is sent before it begins carries the name of
    // this one, and would call it back.
    if (app?.dataset.testScriptState === "rerunRequested") return later();
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
