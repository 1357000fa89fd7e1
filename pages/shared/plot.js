// A Plotly figure that is redrawn in place: what is the same stays, and nothing jumps.
// data: { spec: JSON of {data, layout}, rev, alt, plotly: address of Plotly's script }

export default function (component) {
  const { data, parentElement } = component;
  let plot = parentElement.querySelector(".plot-root");
  if (!plot) {
    plot = document.createElement("div");
    plot.className = "plot-root";
    plot.setAttribute("role", "img");
    parentElement.appendChild(plot);
  }
  if (plot.rev === data.rev) return;
  plot.rev = data.rev;
  const spec = JSON.parse(data.spec);
  plot.style.minHeight = `${spec.layout.height}px`;
  plot.setAttribute("aria-label", data.alt);
  library(data.plotly).then((Plotly) => {
    if (plot.rev !== data.rev) return; // a later run came while Plotly was loading
    Plotly.react(plot, spec.data, spec.layout, { displayModeBar: false });
  });
}

// One copy of Plotly a page, the same as the flow's, fetched when first needed.
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
