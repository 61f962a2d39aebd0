// The editor of SQL: keys, cancelling, and statements that are kept in this browser. What is kept goes in as text.
"use strict";

const SAVED = "lakemq-statements";
const DRAFT = "lakemq-statement";
const SAVED_MAX = 200;
const SAVED_NAME_MAX = 100;
const SAVED_CHARACTERS_MAX = 262144;

class Saved {
  constructor(element, editor) {
    this.element = element;
    this.editor = editor;
    this.list = element.querySelector("[data-sql-list]");
    this.name = element.querySelector("#save-as");
    element.hidden = false;
    element.querySelector("[data-sql-save]").addEventListener("click", () => this.save());
    element.querySelector("[data-sql-export]").addEventListener("click", () => this.keep());
    element.querySelector("[data-sql-import]").addEventListener("change", (event) => this.take(event.target));
    element.querySelector("[data-sql-link]").addEventListener("click", (event) => this.link(event.target));
    this.name.addEventListener("keydown", (event) => { if (event.key === "Enter") this.save(); });
    this.show();
  }

  // Another program under this address may have left anything there.
  read() {
    try {
      return Saved.checked(JSON.parse(localStorage.getItem(SAVED) || "[]"));
    } catch {
      return [];
    }
  }

  static checked(found) {
    if (!Array.isArray(found)) return [];
    const kept = found.filter((each) => each && typeof each.name === "string" && typeof each.statement === "string"
      && each.name && each.name.length <= SAVED_NAME_MAX && each.statement.length <= SAVED_CHARACTERS_MAX);
    return kept.slice(0, SAVED_MAX).map(({ name, statement }) => ({ name, statement }));
  }

  write(all) {
    try {
      localStorage.setItem(SAVED, JSON.stringify(all));
    } catch {
      say("This browser has no space left to save it.");
    }
    this.show();
  }

  save() {
    const name = this.name.value.trim();
    if (!name) {
      this.name.focus();
      return;
    }
    const others = this.read().filter((each) => each.name !== name);
    if (others.length >= SAVED_MAX) {
      say(`A browser keeps ${SAVED_MAX} statements: remove one first.`);
      return;
    }
    this.write([...others, { name, statement: this.editor.value }].sort((one, other) => one.name.localeCompare(other.name)));
    this.name.value = "";
    say(`Saved as ${name}.`);
  }

  show() {
    const all = this.read();
    this.list.textContent = "";
    this.element.querySelector("[data-sql-none]").hidden = all.length > 0;
    for (const each of all) {
      const row = document.createElement("li");
      const use = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: each.name });
      use.addEventListener("click", () => put(this.editor, each.statement));
      const remove = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "Remove" });
      remove.setAttribute("aria-label", `Remove ${each.name}`);
      remove.addEventListener("click", () => this.write(this.read().filter((one) => one.name !== each.name)));
      row.append(use, remove);
      this.list.append(row);
    }
  }

  keep() {
    const content = new Blob([JSON.stringify(this.read(), null, 2)], { type: "application/json" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(content), download: "lakemq-statements.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  async take(field) {
    const file = field.files[0];
    field.value = "";
    if (!file) return;
    try {
      if (file.size > SAVED_MAX * SAVED_CHARACTERS_MAX) throw new Error("too large");
      const found = Saved.checked(JSON.parse(await file.text()));
      const names = new Set(found.map((each) => each.name));
      this.write([...this.read().filter((each) => !names.has(each.name)), ...found].slice(0, SAVED_MAX));
      say(`Imported: ${found.length}.`);
    } catch {
      say("That file has no statements.");
    }
  }

  // Behind the #, which no browser sends: so no log has it.
  async link(button) {
    const link = `${location.origin}/sql#${encodeURIComponent(this.editor.value)}`;
    try {
      await navigator.clipboard.writeText(link);
      say("The link is copied.");
    } catch {
      location.hash = encodeURIComponent(this.editor.value);
      say("The link is in the address bar.");
    }
  }
}

function say(text) {
  document.querySelector("[data-sql-state]").textContent = text;
}

function put(editor, text) {
  editor.focus();
  editor.setSelectionRange(0, editor.value.length);
  // So Ctrl+Z brings back what was there.
  if (!document.execCommand("insertText", false, text)) editor.value = text;
  editor.setSelectionRange(0, 0);
  editor.scrollIntoView({ block: "nearest" });
}

function fromLink(editor) {
  try {
    const text = decodeURIComponent(location.hash.slice(1));
    if (text) editor.value = text.slice(0, SAVED_CHARACTERS_MAX);
    return text !== "";
  } catch {
    return false;
  }
}

function goTo(editor, line, column) {
  const lines = editor.value.split("\n");
  const at = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
  editor.focus();
  editor.setSelectionRange(Math.min(at, editor.value.length), Math.min(at + 1, editor.value.length));
}

function start(form) {
  const editor = form.querySelector("#statement");
  const cancel = form.querySelector("[data-sql-cancel]");
  const result = document.querySelector("[data-sql-result]");
  let began = 0;
  let clock = 0;
  if (!editor.value && !fromLink(editor)) editor.value = sessionStorage.getItem(DRAFT) || "";
  addEventListener("hashchange", () => fromLink(editor));
  editor.addEventListener("input", () => {
    try {
      sessionStorage.setItem(DRAFT, editor.value);
    } catch {
      // It is only for going back.
    }
  });
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-sql-put]");
    if (button !== null) put(editor, button.dataset.sqlPut);
  });
  cancel.addEventListener("click", () => {
    htmx.trigger(form, "htmx:abort");
    say("Cancelled.");
  });
  form.addEventListener("htmx:beforeRequest", () => {
    began = performance.now();
    cancel.hidden = false;
    result.setAttribute("aria-busy", "true");
    const tell = () => say(`Running for ${((performance.now() - began) / 1000).toFixed(0)} s`);
    clearInterval(clock);
    tell();
    clock = setInterval(tell, 1000);
  });
  form.addEventListener("htmx:afterRequest", (event) => {
    clearInterval(clock);
    cancel.hidden = true;
    result.removeAttribute("aria-busy");
    if (event.detail.successful) say("");
    else if (event.detail.xhr.status) say("The console refused that. Load this page again. Your text is kept.");
    else if (document.querySelector("[data-sql-state]").textContent !== "Cancelled.") say("The console doesn't answer.");
    const where = result.querySelector("[data-line]");
    if (where !== null) goTo(editor, Number(where.dataset.line), Number(where.dataset.column));
  });
  new Saved(document.querySelector("[data-sql-saved]"), editor);
}

const editing = document.querySelector("[data-sql]");
if (editing !== null) start(editing);
