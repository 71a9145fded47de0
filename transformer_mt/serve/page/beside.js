"use strict";
/* Beside the translation: the glossary, files, the history, links; and questions to the server. */

/* ---- What the browser keeps ---- */

function stored(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`tmt.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`tmt.${name}`, JSON.stringify(value));
  } catch { /* it is full, or the browser keeps nothing */ }
}

/** A stored list, without entries that have another form. */
function storedList(name, isRight) {
  const found = stored(name, []);
  return Array.isArray(found) ? found.filter(isRight) : [];
}

const areTexts = (values) => values.every((value) => typeof value === "string");

/* ---- Questions to the server ---- */

/** Why there is no answer. `wait`: seconds after which to ask again; null: asking again is of no use. */
class Problem extends Error {
  constructor(name, detail, wait = null) {
    super(name);
    Object.assign(this, { detail, wait });
  }

  get text() { return say(this.message, this.detail, this.wait); }
}

/** The JSON that the server answers to a form or to the JSON of an object. Throws Problem, or that it was aborted. */
async function ask(path, body, signal) {
  let response;
  try {
    const isForm = body instanceof FormData;
    response = await fetch(path, body === undefined ? { signal } : {
      method: "POST", signal, body: isForm ? body : JSON.stringify(body),
      headers: isForm ? {} : { "Content-Type": "application/json" },
    });
  } catch {
    signal.throwIfAborted();
    throw new Problem("offline", "", 5);
  }
  const found = await response.json().catch(() => ({}));
  signal.throwIfAborted();
  if (response.ok) return found;
  const { status } = response, detail = String(found.error ?? status);
  const wait = Math.min(Math.max(Number(response.headers.get("Retry-After")) || 2, 1), 120);
  if (status === 429) throw new Problem("busy", detail, wait);
  if (status === 503) throw new Problem("notReady", detail, wait);
  throw new Problem(status === 403 ? "wrongKey" : status < 500 ? "refused" : "broken", detail);
}

/** `ask`, again while that is of use; `tell` gets each problem in between, and null in the end. */
async function askPatiently(path, body, signal, tell, tries = 8) {
  for (;;) {
    try {
      const found = await ask(path, body, signal);
      tell(null);
      return found;
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.wait === null) throw problem;
      if (problem.message !== "offline" && --tries === 0) throw new Problem("broken", problem.detail);
      tell(problem);
      await pause(problem.wait, signal);
    }
  }
}

/** Some seconds, or until the network is back. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    window.addEventListener("online", resolve, { once: true, signal });
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

/* ---- Glossary: rows of [term, translation] ---- */

const MOST_TERMS = 500; // that the server takes at once
let terms = storedList("glossary", (one) => Array.isArray(one) && one.length === 2 && areTexts(one));

const glossary = () => terms.filter(([term]) => term.trim());

function termsChanged() {
  store("glossary", glossary());
  $("termCount").textContent = glossary().length || "";
  soon();
}

function showTerms() {
  const field = (row, side, label, placeholder) => make("input", { value: terms[row][side], placeholder, "aria-label": say(label, row + 1), autocomplete: "off",
    input: (event) => { terms[row][side] = event.target.value; termsChanged(); } });
  const remove = (row) => make("button", { class: "plain", "aria-label": say("removeTerm", row + 1),
    click: () => { terms.splice(row, 1); showTerms(); termsChanged(); $("addTerm").focus(); } }, "×");
  $("terms").replaceChildren(...terms.map((_, row) => make("div", { class: "term" },
    field(row, 0, "term", say("term", row + 1)), make("span", { "aria-hidden": "true" }, "→"), field(row, 1, "termIn", say("asItIs")), remove(row))));
  $("termCount").textContent = glossary().length || "";
  $("addTerm").disabled = terms.length >= MOST_TERMS;
}

function addTerm() {
  terms.push(["", ""]);
  showTerms();
  $("terms").lastChild.querySelector("input").focus();
}

/* ---- Files ---- */

let files = [], filesDone = Promise.resolve(); // one after the other

function addFiles(list) {
  $("documents").open = true;
  for (const file of list) {
    const entry = { name: file.name, file, problem: null, link: null };
    files.push(entry);
    filesDone = filesDone.then(() => translateFile(entry));
  }
  showFiles();
}

async function translateFile(entry) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ file: entry.file, ...pair, api_key: $("key").value })) form.append(name, value);
  const tell = (problem) => { entry.problem = problem; showFiles(); };
  try {
    const { translatedFileUrl } = await askPatiently("translate_file", form, new AbortController().signal, tell);
    [entry.link] = /download_file\/[\w-]+$/.exec(translatedFileUrl) ?? [];
    tell(entry.link ? null : new Problem("broken", "translatedFileUrl"));
  } catch (problem) {
    tell(problem);
  }
}

function showFiles() {
  $("files").replaceChildren(...files.map(({ name, link, problem }) => {
    const inLanguage = name.replace(/(\.\w+)?$/, `.${pair.target}$1`);
    const state = link ? make("a", { href: link, download: inLanguage }, say("download", inLanguage)) : problem?.text ?? say("working");
    return make("li", {}, make("span", { class: "name" }, name), make("span", { class: problem ? "mark" : "muted" }, state));
  }));
}

/** Files may be dropped everywhere; other things go where they are dropped. */
function takeDroppedFiles() {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const dragging = (is) => document.body.classList.toggle("dragging", is);
  document.addEventListener("dragover", (event) => { if (hasFiles(event)) { event.preventDefault(); dragging(true); } });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) dragging(false); });
  document.addEventListener("drop", (event) => {
    dragging(false);
    if (!hasFiles(event)) return;
    event.preventDefault();
    addFiles(event.dataTransfer.files);
  });
}

/* ---- History ---- */

const MOST_PAST = 50;
const isPast = (one) => one && areTexts([one.text, one.translation, one.source, one.target]);
let remembering; // when a text has stood for a moment

/** Keep the translation shown; it takes the place of one whose text it goes on from. */
function remember() {
  clearTimeout(remembering);
  if (!answer?.text) return;
  const { text, source, target } = answer, [latest, ...older] = storedList("history", isPast);
  const isBegun = latest && latest.target === target && text.startsWith(latest.text);
  const others = (latest && !isBegun ? [latest, ...older] : older).filter((one) => one.text !== text || one.target !== target);
  store("history", [{ text, translation: shownTranslation(), source, target }, ...others].slice(0, MOST_PAST));
  showPast();
}

function showPast() {
  const past = storedList("history", isPast);
  $("pastCount").textContent = past.length || "";
  $("forget").hidden = !past.length;
  $("past").replaceChildren(...past.map(({ text, translation, source, target }) => make("li", {},
    make("button", { class: "choice", click: () => openText({ text, source, target }) },
      make("span", { class: "muted", lang: source, dir: "auto" }, text), make("span", { lang: target, dir: "auto" }, translation)))));
}

function forget() {
  clearTimeout(remembering);
  store("history", []);
  showPast();
}

/* ---- Links and the clipboard ---- */

/** Text and languages that an address has behind its #, which browsers keep to themselves. */
function linked() {
  const found = new URLSearchParams(location.hash.slice(1));
  return found.has("text") ? Object.fromEntries(found) : null;
}

async function share() {
  const fields = new URLSearchParams({ ...pair, text: $("input").value });
  window.history.replaceState(null, "", `#${fields}`);
  tellBriefly(await copied(location.href) ? "linkCopied" : "linkThere");
}

/** A text that changes is another than the address has. */
function unlink() {
  if (location.hash) window.history.replaceState(null, "", location.pathname + location.search);
}

/** Whether the browser let the page copy a text; without TLS there is only the old way. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "unseen" }), { activeElement } = document;
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    activeElement?.focus();
    return done;
  }
}
