// What pages do beside htmx: copy, choose how a body is shown, keep current what is live. It makes no markup of its own:
// what comes from the server is escaped there, and all else goes in as text.
"use strict";

// The element that a button names; without a name, the form of a body that is shown now.
function sourceOf(button) {
  const name = button.dataset.copy;
  return name ? document.getElementById(name) : document.querySelector("[data-form]:not([hidden])");
}

function showForm(select) {
  for (const each of document.querySelectorAll("[data-form]")) each.hidden = each.dataset.form !== select.value;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button === null) return;
  const before = button.dataset.label || button.textContent;
  button.dataset.label = before;
  try {
    await navigator.clipboard.writeText(sourceOf(button).textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy";
    const range = document.createRange();
    range.selectNodeContents(sourceOf(button));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }
  setTimeout(() => { button.textContent = before; }, 2000);
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  if (event.target.matches("[data-shows]")) showForm(event.target);
});

// Which of the fields of a form matter.
function fitFields() {
  for (const each of document.querySelectorAll("[data-when]")) {
    const [name, value] = each.dataset.when.split("=");
    const field = each.closest("form").elements[name];
    if (field) each.hidden = field.value !== value;
  }
}
document.addEventListener("change", fitFields);

// A file that is written into a field of its form: the text, or for a descriptor set of Protobuf a schema that has it.
const DESCRIPTOR_SET = /\.(desc|pb|binpb)$/i;

async function textOf(file) {
  if (/\.proto$/i.test(file.name)) throw new Error("Choose what protoc --include_imports --descriptor_set_out makes of it.");
  const isSet = DESCRIPTOR_SET.test(file.name);
  const content = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error("The file can't be read."));
    if (isSet) reader.readAsDataURL(file);
    else reader.readAsText(file);
  });
  const set = content.slice(content.indexOf(",") + 1);
  return isSet ? JSON.stringify({ message: "", descriptor_set: set }, null, 2) : content;
}

function typeOf(file) {
  if (DESCRIPTOR_SET.test(file.name)) return "protobuf";
  return /\.avsc$/i.test(file.name) ? "avro" : "json";
}

async function fill(input) {
  const [file] = input.files;
  const { type, [input.dataset.fills]: field } = input.form.elements;
  let wrong = "";
  try {
    const text = file && file.size <= field.maxLength ? await textOf(file) : null;
    if (file !== input.files[0]) return; // another was chosen meanwhile
    if (file && (text === null || text.length > field.maxLength)) throw new Error("The file is larger than a schema may be.");
    if (file) [field.value, type.value] = [text, typeOf(file)];
  } catch (error) {
    wrong = error.message;
  }
  input.setCustomValidity(wrong);
  if (wrong) input.reportValidity();
}

for (const element of document.querySelectorAll("[data-with-file]")) element.hidden = false;
document.addEventListener("change", (event) => { if (event.target.matches("[data-fills]")) fill(event.target); });
document.addEventListener("input", (event) => { // whoever writes it by hand doesn't need the file
  const input = event.target.form?.querySelector(`[data-fills="${CSS.escape(event.target.name)}"]`);
  if (input) input.setCustomValidity("");
});

const LINES = {
  in: { label: "in/s", stroke: "--accent", value: (plot, value) => (value === null ? "–" : value.toFixed(1)) },
  out: { label: "out/s", stroke: "--good", dash: [6, 3], value: (plot, value) => (value === null ? "–" : value.toFixed(1)) },
  lag: { label: "behind", stroke: "--accent", value: (plot, value) => (value === null ? "–" : value.toFixed(0)) },
};

class Chart {
  constructor(element) {
    this.element = element;
    this.names = (element.dataset.chart || "in,out").split(",");
    this.data = [[], ...this.names.map(() => [])];
    this.plot = null;
  }

  add(numbers) {
    if (this.names.every((name) => numbers[name] === null)) return;
    const [times, ...lines] = this.data;
    times.push(Date.now() / 1000);
    lines.forEach((line, number) => line.push(numbers[this.names[number]]));
    if (times.length > 300) this.data.forEach((each) => each.shift());
    if (times.length < 2) return;
    if (this.plot === null) this.make();
    this.plot.setData(this.data);
  }

  make() {
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    this.element.textContent = "";
    this.plot = new uPlot({
      width: this.element.clientWidth,
      height: this.element.clientHeight - 28,
      cursor: { y: false },
      scales: { y: { range: (plot, least, most) => [0, Math.max(most || 0, 1) * 1.1] } },
      axes: [
        {
          ...axis,
          space: 90,
          incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300],
          values: (plot, times) => times.map((each) => new Date(each * 1000).toISOString().slice(11, 19)),
        },
        { ...axis, size: 56 },
      ],
      series: [
        { label: "UTC", value: (plot, time) => (time === null ? "–" : new Date(time * 1000).toISOString().slice(11, 19)) },
        ...this.names.map((name) => ({ ...LINES[name], stroke: colour(LINES[name].stroke), width: 2 })),
      ],
    }, this.data, this.element);
    new ResizeObserver(() => {
      this.plot.setSize({ width: this.element.clientWidth, height: this.element.clientHeight - 28 });
    }).observe(this.element);
  }
}

// What is live is live as long as somebody sees the page: one in the background asks for nothing.
class Live {
  constructor(element) {
    this.element = element;
    this.state = document.querySelector("[data-live-state]");
    this.most = Number(element.dataset.most || 0);
    this.paused = false;
    this.source = null;
    const chart = document.querySelector("[data-chart]");
    this.chart = chart === null ? null : new Chart(chart);
    const button = document.querySelector("[data-live-pause]");
    if (button !== null) {
      button.hidden = false;
      button.addEventListener("click", () => {
        this.paused = !this.paused;
        button.textContent = this.paused ? "Follow" : "Pause";
        this.fit();
      });
    }
    document.addEventListener("visibilitychange", () => this.fit());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.fit());
    this.fit();
  }

  fit() {
    if (document.hidden || this.paused) {
      this.close();
      this.say("", "Paused");
    } else if (this.source === null) {
      this.open();
    }
  }

  open() {
    const source = new EventSource(this.element.dataset.live);
    this.source = source;
    source.addEventListener("open", () => this.say("on", "Live"));
    source.addEventListener("page", (event) => this.replace(event.data));
    source.addEventListener("rows", (event) => this.prepend(event.data));
    source.addEventListener("numbers", (event) => { if (this.chart !== null) this.chart.add(JSON.parse(event.data)); });
    source.addEventListener("left-out", (event) => this.say("on", `Live; ${event.data} were too fast to be shown`));
    source.addEventListener("problem", (event) => { this.close(); this.say("off", event.data); });
    source.addEventListener("error", () => {
      this.say("off", source.readyState === EventSource.CLOSED ? "Not live: load the page again" : "Not live: trying again");
    });
  }

  close() {
    if (this.source !== null) this.source.close();
    this.source = null;
  }

  say(state, text) {
    if (this.state === null) return;
    this.state.dataset.state = state;
    this.state.textContent = text;
  }

  // Nothing is replaced while somebody is in it, or has selected some of it.
  replace(markup) {
    const selected = getSelection();
    const busy = this.element.contains(document.activeElement)
      || (!selected.isCollapsed && this.element.contains(selected.anchorNode));
    if (!busy) this.element.innerHTML = markup;
  }

  prepend(markup) {
    const none = document.querySelector("[data-none]");
    if (none !== null) none.hidden = true;
    this.element.closest("table").hidden = false;
    this.element.insertAdjacentHTML("afterbegin", markup);
    while (this.most && this.element.children.length > this.most) this.element.lastElementChild.remove();
  }
}

for (const element of document.querySelectorAll("[data-live]")) new Live(element);
for (const element of document.querySelectorAll("[data-shows]")) showForm(element); // a browser may restore the choice
fitFields();
