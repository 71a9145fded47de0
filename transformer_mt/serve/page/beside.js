"use strict";
/* Beside the translation: questions to the server, the glossary, files, the history, links. */

const areTexts = (values) => values.every((value) => typeof value === "string");
const storedTerms = () => [stored("glossary")].flat().filter((one) => Array.isArray(one) && one.length === 2 && areTexts(one));
const storedPast = () => [stored("history")].flat().filter((one) => one && areTexts([one.text, one.translation, one.source, one.target]));

/* ---- Questions to the server ---- */

/** Why there is no answer. `wait`: seconds after which to ask again; null: asking again is of no use. */
class Problem extends Error {
  constructor(name, detail, wait = null) { Object.assign(super(name), { detail, wait }); }
  get text() { return say(this.message, this.detail, this.wait); }
}

/** The JSON that the server answers to a form, or to an object as JSON. */
async function ask(path, body, signal) {
  const [headers, content] = body instanceof FormData ? [{}, body] : [{ "Content-Type": "application/json" }, JSON.stringify(body)];
  const options = body ? { method: "POST", headers, body: content, signal } : { signal };
  const response = await fetch(path, options).catch(() => { throw new Problem("offline", "", 5); });
  const found = await response.json().catch(() => null);
  if (response.ok) { if (found) return found; throw new Problem("offline", "", 5); } // it was cut off
  const { status } = response, detail = String(found?.error ?? status);
  const wait = Math.min(Math.max(Number(response.headers.get("Retry-After")) || 2, 1), 120);
  if (status === 429) throw new Problem("busy", detail, wait);
  if ([502, 503].includes(status) || (status === 504 && !body)) throw new Problem("notReady", detail, wait); // a proxy says so, too
  throw new Problem(status === 403 ? "wrongKey" : status < 500 ? "refused" : "broken", detail);
}

/** `ask`, again while that is of use. `tell` gets each problem, and null with the answer.
 * Without an answer it is null; undefined if it was aborted. */
async function askPatiently(path, body, tell, { signal } = new AbortController(), tries = 8) {
  while (!signal.aborted) {
    try {
      const found = await ask(path, body, signal);
      if (signal.aborted) break;
      tell(null);
      return found;
    } catch (problem) {
      if (signal.aborted) break;
      if (!(problem instanceof Problem)) throw problem;
      const mayPass = problem.message === "offline" && !(body instanceof FormData && navigator.onLine), isLast = problem.wait !== null && !mayPass && --tries === 0;
      tell(isLast ? new Problem(problem.message === "offline" ? "gone" : "broken", problem.detail) : problem);
      if (isLast || problem.wait === null) return null;
      await new Promise((resolve) => { // until the network is back, at most
        setTimeout(resolve, 1000 * problem.wait);
        window.addEventListener("online", resolve, { once: true, signal });
      });
    }
  }
  return undefined;
}

/* ---- Glossary: rows of [term, translation] ---- */

const MOST_TERMS = 500; // that the server takes at once
const terms = storedTerms();
const glossary = () => terms.filter(([term]) => term.trim());

/** As the server tells terms apart: US is not us, but Cat is cat, as where a sentence begins. */
const spelling = (term) => (/^.\P{Lu}*$/u.test(term) && term !== term.toUpperCase() ? term.toLowerCase() : term);

/** One row for each term, the last: with two the server would refuse the text. */
const sentTerms = () => [...new Map(glossary().map((row) => [spelling(row[0].trim().replace(/\s+/g, " ")), row])).values()];

/** Another tab has changed what the browser keeps; what is being typed here stays. */
function changedElsewhere({ key }) {
  if (key === "tmt.history") { if (!storedPast().length) forgotten = answer?.text; showPast(); }
  if (key !== "tmt.glossary" || (document.hasFocus() && $("terms").contains(document.activeElement))) return;
  terms.splice(0, Infinity, ...storedTerms());
  showTerms();
  soon();
}

const termsChanged = () => { store("glossary", glossary()); soon(); };

function showTerms() {
  const field = (row, side, label, placeholder) => make("input", { value: terms[row][side], placeholder, "aria-label": say(label, row + 1), autocomplete: "off",
    input: (event) => { terms[row][side] = event.target.value; termsChanged(); } });
  const remove = (row) => make("button", { class: "plain", "aria-label": say("removeTerm", row + 1),
    click: () => { terms.splice(row, 1); showTerms(); termsChanged(); $("addTerm").focus(); } }, "×");
  $("terms").replaceChildren(...terms.map((_, row) => make("div", { class: "term" },
    field(row, 0, "term", say("term", row + 1)), make("span", { "aria-hidden": "true" }, "→"), field(row, 1, "termIn", say("asItIs")), remove(row))));
  $("addTerm").disabled = terms.length >= MOST_TERMS;
}

function addTerm() {
  terms.push(["", ""]);
  showTerms();
  $("terms").lastChild.querySelector("input").focus();
}

/* ---- Files: { file, name and target language of the translation, problem, link } ---- */

const files = [];
let filesDone = Promise.resolve(); // one after the other

function addFiles(list) {
  if (!pair.target) return; // the models are being loaded
  $("documents").open = true;
  for (const file of list) {
    const entry = { file, fields: { file, ...pair, api_key: $("key").value }, name: file.name.replace(/(\.\w+)?$/, `.${pair.target}$1`) };
    files.push(entry);
    showFile(entry);
    filesDone = filesDone.then(() => translateFile(entry));
  }
}

async function translateFile(entry) {
  const form = new FormData(), tell = (problem) => { entry.problem = problem; showFile(entry); };
  if (!(await entry.file.slice(0, 1).arrayBuffer().catch(() => null))) return tell(new Problem("unreadable"));
  for (const [name, value] of Object.entries(entry.fields)) form.append(name, value);
  const found = await askPatiently("translate_file", form, tell);
  [entry.link] = /download_file\/[\w-]+$/.exec(found?.translatedFileUrl) ?? [];
  showFile(entry);
}

const showFiles = () => files.forEach(showFile);

/** In its own place: who stands on the link of another file stays there. */
function showFile(entry) {
  const { file, name, link, problem } = entry;
  entry.row ??= $("files").appendChild(make("li", {}, make("span", { class: "name" }, file.name), make("span", { role: "status" })));
  entry.row.lastChild.className = problem ? "mark" : "muted";
  entry.row.lastChild.replaceChildren(link ? make("a", { href: link, download: name }, say("download", name)) : problem?.text ?? say("working"));
}

/** Files may be dropped everywhere; other things go where they are dropped. */
function drag(event) {
  const hasFiles = Boolean(event.dataTransfer?.types.includes("Files"));
  document.body.classList.toggle("dragging", hasFiles && event.type === "dragover");
  if (hasFiles) event.preventDefault();
  if (hasFiles && event.type === "drop") addFiles(event.dataTransfer.files);
}

/* ---- History ---- */

const MOST_PAST = 50;
let remembering, forgotten; // when a text has stood for a moment; the text that does not come back
let goesOn = false; // the text is typed on from the latest one of the history
let composing = false; // an input method is still spelling the text

/** Keep the translation shown; it takes the place of the one whose text it goes on from. */
function remember() {
  clearTimeout(remembering);
  if (!answer || answer.text === forgotten || composing) return;
  const { text, source, target } = answer, past = storedPast();
  const isOther = (one, i) => one.target !== target || !(one.text === text || (goesOn && i === 0 && text.startsWith(one.text)));
  store("history", [{ text, translation: shownTranslation(), source, target }, ...past.filter(isOther)].slice(0, MOST_PAST));
  [goesOn, forgotten] = [true, null];
  showPast();
}

function showPast() {
  const past = storedPast();
  $("pastCount").textContent = past.length || "";
  $("forget").hidden = !past.length;
  $("past").replaceChildren(...past.map(({ text, translation, source, target }) => make("li", {},
    make("button", { class: "choice", click: () => { openText({ text, source, target }); $("input").focus(); } },
      make("span", { class: "muted", lang: source, dir: "auto" }, text), make("span", { lang: target, dir: "auto" }, translation)))));
}

const forget = () => { clearTimeout(remembering); forgotten = answer?.text; store("history", []); showPast(); };

/* ---- Links, with text and languages behind the #, which browsers keep to themselves ---- */

async function share() {
  window.history.replaceState(null, "", `#${new URLSearchParams({ ...pair, text: $("input").value })}`);
  tellBriefly(await copied(location.href) ? "linkCopied" : "linkThere");
}

const linked = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const unlink = () => location.hash && window.history.replaceState(null, "", location.pathname + location.search);

/** Whether the browser let the page copy a text; without TLS there is only the old way. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "unseen" }, text), { activeElement } = document;
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    activeElement?.focus();
    return isDone;
  }
}
