// Charts of columns that stand in an attribute as JSON: [{name, kind: "number" | "time" | "label", values}]. Which are
// drawn, and how, is chosen in a form beside it. All names are text.
"use strict";

const PLOT_SERIES_MAX = 4;
const PLOT_BARS_MAX = 2;  // beside each other
const PLOT_STEPS = {
  label: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
  time: [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 28 * 86400, 91 * 86400, 365 * 86400],
};
const PLOT_STYLES = [["--accent", []], ["--good", [6, 3]], ["--warn", [2, 3]], ["--bad", [10, 3, 2, 3]]];

function plotElement(name, text, values) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  Object.assign(made, values || {});
  return made;
}

class Plot {
  constructor(element, form) {
    this.element = element;
    this.columns = JSON.parse(element.dataset.plot);
    this.x = Math.max(this.columns.findIndex((each) => each.kind !== "number"), 0);
    const numbers = this.numbers().filter((at) => at !== this.x);
    this.bars = this.columns[this.x].kind === "label" || "plotBars" in element.dataset;
    this.ys = numbers.length ? numbers.slice(0, this.bars ? 1 : PLOT_SERIES_MAX) : [this.x];
    this.plot = null;
    if (form !== null) this.fill(form);
    new ResizeObserver(() => this.fit()).observe(element);
  }

  numbers() {
    return this.columns.map((each, at) => at).filter((at) => this.columns[at].kind === "number");
  }

  fill(form) {
    form.addEventListener("submit", (event) => event.preventDefault());
    const across = plotElement("select", "", { name: "x", id: "plot-x" });
    this.columns.forEach((each, at) => across.append(plotElement("option", each.name, { value: at, selected: at === this.x })));
    const shape = plotElement("select", "", { name: "shape", id: "plot-shape" });
    for (const [value, text] of [["lines", "lines"], ["bars", "bars"]]) {
      shape.append(plotElement("option", text, { value, selected: (value === "bars") === this.bars }));
    }
    const drawn = plotElement("fieldset");
    drawn.append(plotElement("legend", "Draw"));
    for (const at of this.numbers()) {
      const box = plotElement("input", "", { type: "checkbox", name: "y", value: at, checked: this.ys.includes(at) });
      const label = plotElement("label", "", { className: "beside" });
      label.append(box, " ", this.columns[at].name, " ");
      drawn.append(label);
    }
    for (const [text, field] of [["Along x", across], ["As", shape]]) {
      const beside = plotElement("div");
      beside.append(plotElement("label", text, { htmlFor: field.id }), field);
      form.append(beside);
    }
    form.append(drawn);
    form.addEventListener("change", () => {
      this.x = Number(across.value);
      this.bars = shape.value === "bars";
      this.ys = [...form.querySelectorAll("input:checked")].map((each) => Number(each.value));
      this.ys = this.ys.slice(0, this.bars ? PLOT_BARS_MAX : PLOT_SERIES_MAX);
      this.draw();
    });
  }

  // In the order of x, as a line has to be; labels keep the order of the rows, and so do bars of anything.
  data() {
    const across = this.columns[this.x];
    const labels = across.kind === "label";
    const rows = across.values.map((value, at) => [labels ? at : value, at]).filter((each) => each[0] !== null);
    if (!labels) rows.sort((one, other) => one[0] - other[0]);
    return [rows.map((each) => each[0]), ...this.ys.map((y) => rows.map((each) => this.columns[y].values[each[1]]))];
  }

  say(value) {
    const across = this.columns[this.x];
    if (value === null || value === undefined) return "–";
    if (across.kind === "label") return across.values[Math.round(value)] || "";
    if (across.kind === "number") return Number(value).toLocaleString("en");
    return new Date(value * 1000).toISOString().replace("T", " ").slice(0, 19);
  }

  // As short as the steps between them allow.
  ticks(values) {
    if (this.columns[this.x].kind !== "time") return values.map((value) => this.say(value).slice(0, 24));
    const step = values.length > 1 ? values[1] - values[0] : 60;
    const [from, to] = step < 60 ? [11, 19] : step < 86400 ? [5, 16] : [0, 10];
    return values.map((value) => this.say(value).slice(from, to));
  }

  fit() {
    if (!this.element.clientWidth) return;  // it isn't open
    if (this.plot === null) this.draw();
    else if (this.plot.width !== this.element.clientWidth) this.plot.setSize(this.size());
  }

  size() {
    return { width: this.element.clientWidth, height: this.element.clientHeight - 32 };
  }

  draw() {
    if (this.plot !== null) this.plot.destroy();
    this.plot = null;
    this.element.textContent = "";
    const data = this.data();
    if (!this.ys.length || !data[0].length || !this.element.clientWidth) return;
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const across = this.columns[this.x];
    const [low, high] = [data[0][0], data[0][data[0].length - 1]];
    const alone = across.kind === "time" ? 30 : 0.6;
    const edge = this.bars && low < high ? (high - low) / data[0].length / 1.6 : low === high ? alone : 0;
    const beside = this.ys.length > 1;
    const bars = (at) => uPlot.paths.bars({ size: [beside ? 0.35 : 0.7, 80], align: beside ? (at ? 1 : -1) : 0 });
    const series = this.ys.map((y, at) => ({
      label: this.columns[y].name,
      stroke: colour(PLOT_STYLES[at][0]),
      fill: this.bars ? `${colour(PLOT_STYLES[at][0])}66` : undefined,
      width: this.bars ? 1 : 2,
      dash: this.bars ? [] : PLOT_STYLES[at][1],
      paths: this.bars ? bars(at) : undefined,
      points: { show: !this.bars && data[0].length < 60 },
      value: (plot, value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en")),
    }));
    const positive = data.slice(1).every((each) => each.every((value) => value === null || value >= 0));
    this.plot = new uPlot({
      ...this.size(),
      cursor: { y: false },
      scales: {
        x: { time: false, range: () => [low - edge, high + edge] },
        y: positive ? { range: (plot, least, most) => [0, (most || 1) * 1.08] } : {},
      },
      axes: [
        {
          ...axis,
          space: across.kind === "number" ? 70 : 100,
          incrs: PLOT_STEPS[across.kind],
          values: (plot, values) => this.ticks(values),
        },
        { ...axis, size: 72 },
      ],
      series: [{ label: across.name, value: (plot, value) => this.say(value) }, ...series],
    }, data, this.element);
  }
}

function makePlots(within) {
  for (const element of within.querySelectorAll("[data-plot]")) {
    const around = element.closest("[data-plot-of]");
    new Plot(element, around === null ? null : around.querySelector("[data-plot-form]"));
  }
}

makePlots(document);
document.addEventListener("htmx:afterSwap", (event) => makePlots(event.detail.target));
