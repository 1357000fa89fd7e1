export default function (component) {
  const { setStateValue, parentElement } = component;
  const motion = window.matchMedia("(prefers-reduced-motion: reduce)");
  const main = document.querySelector('[data-testid="stMainBlockContainer"]');
  let last = "";
  const report = () => {
    const style = getComputedStyle(main);
    const inner = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const seen = { width: Math.max(280, Math.floor(inner / 20) * 20), still: motion.matches };
    if (JSON.stringify(seen) === last) return;
    last = JSON.stringify(seen);
    setStateValue("seen", seen);
  };
  let timer = 0;
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(report, 120);
  });
  observer.observe(main);
  motion.addEventListener("change", report);
  report();
  return () => {
    observer.disconnect();
    motion.removeEventListener("change", report);
  };
}
