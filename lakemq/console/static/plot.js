// Charts of columns that stand in an attribute as JSON: [{name, kind: "number" | "time" | "label", values}]. Which are
// drawn, and how, is chosen in a form beside it. All names are text.
"use strict";

const PLOT_SERIES_MAX = 6;
const PLOT_BAR_PX_MAX = 80;
const PLOT_STEPS = {
  label: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
  time: [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 28 * 86400, 91 * 86400, 365 * 86400],
};
const PLOT_STYLES = [["--accent", []], ["--good", [6, 3]], ["--warn", [2, 3]], ["--bad", [10, 3, 2, 3]], ["--plot-5", [12, 5]], ["--plot-6", [1, 3]]];
const PLOT_SHAPES = [["lines", "lines"], ["bars", "bars side by side"], ["stacked", "stacked bars"]];

function plotElement(name, text, values) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  Object.assign(made, values || {});
  return made;
}

function plotColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Each bar at its place beside the others of its group, or on top of them: uPlot takes left edges and a width in the units of x.
function plotBars(xs, number, count, width) {
  const left = xs.map((x) => x - (count * width) / 2 + number * width);
  return uPlot.paths.bars({
    disp: { x0: { unit: 1, values: () => left }, size: { unit: 1, values: () => xs.map(() => width) } },
  });
}

class Plot {
  constructor(element, form) {
    this.element = element;
    this.columns = JSON.parse(element.dataset.plot);
    this.x = Math.max(this.columns.findIndex((each) => each.kind !== "number"), 0);
    const numbers = this.numbers().filter((at) => at !== this.x);
    this.shape = this.columns[this.x].kind === "label" || "plotBars" in element.dataset ? "bars" : "lines";
    this.ys = numbers.length ? numbers.slice(0, this.bars ? 1 : PLOT_SERIES_MAX) : [this.x];
    this.plot = null;
    if (form !== null) this.fill(form);
    new ResizeObserver(() => this.fit()).observe(element);
  }

  get bars() {
    return this.shape !== "lines";
  }

  numbers() {
    return this.columns.map((each, at) => at).filter((at) => this.columns[at].kind === "number");
  }

  fill(form) {
    form.addEventListener("submit", (event) => event.preventDefault());
    const across = plotElement("select", "", { name: "x", id: "plot-x" });
    this.columns.forEach((each, at) => across.append(plotElement("option", each.name, { value: at, selected: at === this.x })));
    const shape = plotElement("select", "", { name: "shape", id: "plot-shape" });
    for (const [value, text] of PLOT_SHAPES) shape.append(plotElement("option", text, { value, selected: value === this.shape }));
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
    const keep = plotElement("button", "Save as PNG", { type: "button" });
    keep.addEventListener("click", () => this.save());
    const beside = plotElement("div", "", { className: "tight" });
    beside.append(keep);
    this.note = plotElement("p", "", { className: "muted small note" });
    this.note.setAttribute("role", "status");
    form.append(drawn, beside, this.note);
    const boxes = [...drawn.querySelectorAll("input")];
    const fit = () => {
      const full = boxes.filter((each) => each.checked).length >= PLOT_SERIES_MAX;
      for (const each of boxes) each.disabled = full && !each.checked;
    };
    fit();
    form.addEventListener("change", () => {
      this.x = Number(across.value);
      this.shape = shape.value;
      this.ys = boxes.filter((each) => each.checked).map((each) => Number(each.value));
      fit();
      this.draw();
    });
  }

  tell(text) {
    if (this.note) this.note.textContent = text;
  }

  // The chart with its legend, on the page's own ground.
  save() {
    if (this.plot === null) return;
    const drawn = this.plot.ctx.canvas;
    const ratio = drawn.width / this.plot.width;
    const [size, gap] = [13 * ratio, 8 * ratio];
    const made = plotElement("canvas");
    const pen = made.getContext("2d");
    const font = `${size}px system-ui, sans-serif`;
    pen.font = font;
    const names = this.ys.map((y, at) => [this.columns[y].name.slice(0, 60), plotColour(PLOT_STYLES[at][0])]);
    let [x, y] = [gap, drawn.height + gap];
    const places = names.map(([name]) => {
      const width = size + gap + pen.measureText(name).width + 2 * gap;
      if (x + width > drawn.width && x > gap) [x, y] = [gap, y + size + gap];
      const place = [x, y];
      x += width;
      return place;
    });
    [made.width, made.height] = [drawn.width, y + size + gap];
    pen.font = font;
    pen.textBaseline = "top";
    pen.fillStyle = plotColour("--surface");
    pen.fillRect(0, 0, made.width, made.height);
    pen.drawImage(drawn, 0, 0);
    names.forEach(([name, colour], at) => {
      pen.fillStyle = colour;
      pen.fillRect(...places[at], size, size);
      pen.fillStyle = plotColour("--text");
      pen.fillText(name, places[at][0] + size + gap, places[at][1]);
    });
    made.toBlob((content) => {
      if (content === null) {
        this.tell("This browser can't save the chart as an image.");
        return;
      }
      const link = plotElement("a", "", { href: URL.createObjectURL(content), download: "lakemq-chart.png" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
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
    this.height = this.height || this.element.clientHeight - 32;  // a long legend makes the element higher
    if (this.plot === null) this.draw();
    else if (this.plot.width !== this.element.clientWidth) this.plot.setSize(this.size());
  }

  size() {
    return { width: this.element.clientWidth, height: this.height };
  }

  // Sums from the first column up, the highest first, as it is drawn first; null where stacking makes no sense.
  stacked(data) {
    if (this.shape !== "stacked" || this.ys.length < 2) return null;
    if (data.slice(1).some((each) => each.some((value) => value < 0))) {
      this.tell("Negative values can't be stacked, so the bars are side by side.");
      return null;
    }
    const sums = [];
    for (const each of data.slice(1)) {
      const below = sums[sums.length - 1];
      sums.push(each.map((value, at) => (value || 0) + (below ? below[at] : 0)));
    }
    return sums;
  }

  draw() {
    if (this.plot !== null) this.plot.destroy();
    this.plot = null;
    this.element.textContent = "";
    this.tell("");
    const data = this.data();
    if (!this.ys.length || !data[0].length || !this.element.clientWidth) return;
    const axis = { stroke: plotColour("--muted"), grid: { stroke: plotColour("--line"), width: 1 }, ticks: { stroke: plotColour("--line") } };
    const across = this.columns[this.x];
    const xs = data[0];
    const [low, high] = [xs[0], xs[xs.length - 1]];
    const alone = across.kind === "time" ? 30 : 0.6;
    const step = xs.reduce((least, x, at) => (at && x > xs[at - 1] ? Math.min(least, x - xs[at - 1]) : least), Infinity);
    const unit = Number.isFinite(step) ? step : 2 * alone;
    const edge = this.bars && low < high ? unit * 0.6 : low === high ? alone : 0;
    const sums = this.stacked(data);
    const count = sums ? 1 : this.ys.length;
    const px = Math.max(this.element.clientWidth - 90, 1);
    const width = Math.min((unit * 0.8) / count, (PLOT_BAR_PX_MAX * (high - low + 2 * edge)) / px);
    const value = (at) => (plot, shown, number, index) => {
      const found = index === null || index === undefined ? null : data[at + 1][index];
      return found === null || found === undefined ? "–" : Number(found).toLocaleString("en");
    };
    const series = this.ys.map((y, at) => ({
      label: this.columns[y].name,
      stroke: plotColour(PLOT_STYLES[at][0]),
      fill: this.bars ? `${plotColour(PLOT_STYLES[at][0])}${sums ? "" : count > 1 ? "b3" : "66"}` : undefined,
      width: this.bars ? 1 : 2,
      dash: this.bars ? [] : PLOT_STYLES[at][1],
      paths: this.bars ? plotBars(xs, sums ? 0 : at, count, width) : undefined,
      points: { show: !this.bars && xs.length < 60 },
      value: value(at),
    }));
    const drawn = sums ? sums.reverse() : data.slice(1);
    if (sums) series.reverse();
    const positive = data.slice(1).every((each) => each.every((found) => found === null || found >= 0));
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
      series: [{ label: across.name, value: (plot, found) => this.say(found) }, ...series],
    }, [xs, ...drawn], this.element);
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
