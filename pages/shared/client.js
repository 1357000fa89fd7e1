// The palette of the theme as custom properties, and the width of the page's column, reported once
// and whenever it changes.

export default function (component) {
  const { data, setStateValue } = component;
  const sheet = document.documentElement.style;
  for (const [name, value] of Object.entries(data.palette)) {
    // Setting one again, even to the same, would restyle the whole page.
    if (sheet.getPropertyValue(`--${name}`) !== value) sheet.setProperty(`--${name}`, value);
  }
  const main = document.querySelector('[data-testid="stMainBlockContainer"]');
  const report = () => {
    const style = getComputedStyle(main);
    const inner = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // In steps, so that a scroll bar that comes and goes does not cause a run.
    const width = Math.max(280, Math.floor(inner / 20) * 20);
    if (width !== main.reportedWidth) {
      main.reportedWidth = width;
      setStateValue("width", width);
    }
  };
  let timer = 0;
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(report, 120);
  });
  observer.observe(main);
  report();
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}
