"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (ink, soft, line, ground) => ({
    background: "transparent",
    font: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif",
    view: { stroke: null },
    axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: soft, tickColor: line,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 150, labelSeparation: 4 },
    axisX: { labelFlush: false },
    legend: { labelColor: soft, titleColor: soft, labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal", orient: "top", labelLimit: 220,
      layout: { top: { anchor: "start", direction: "vertical" } } },
    title: { color: ink }, text: { color: ink }, rule: { color: soft },
  });
  const themes = { light: theme("#1b222b", "#59636f", "#e4e7eb"), dark: theme("#e8ebef", "#a5afbb", "#2c343d") };
  const named = { PNG: "png", SVG: "svg" };

  async function draw(figure) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const place = figure.querySelector(".chart");
    const colours = dark.matches ? themes.dark : themes.light;
    const columns = Math.max(2, Math.floor(place.clientWidth / 125));
    const drawn = await vegaEmbed(place, spec, {
      actions: false, config: { ...colours, legend: { ...colours.legend, columns } },
      tooltip: { theme: dark.matches ? "dark" : "light" },
    });
    figure.vega?.finalize();
    figure.vega = drawn;
    figure.dataset.drawn = "yes";
    const buttons = figure.querySelector(".save");
    buttons.replaceChildren(...Object.entries(named).map(([label, kind]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.title = `Save this figure as ${label}`;
      button.onclick = async () => {
        const link = document.createElement("a");
        link.download = `${figure.id}.${kind}`;
        link.href = await drawn.view.toImageURL(kind, kind === "png" ? 2 : 1);
        link.click();
      };
      return button;
    }));
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.onclick = async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(document.getElementById(button.dataset.copy)); }
    };
  }

  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "600px" });
  figures.forEach((figure) => seen.observe(figure));
  const again = () => figures.filter((figure) => figure.dataset.drawn).forEach(draw);
  dark.addEventListener("change", again);
  addEventListener("beforeprint", () => figures.filter((figure) => !figure.dataset.drawn).forEach(draw));
})();
