"use strict";
/* The page of the server: what is typed is translated, and can be looked into.
 * `answer` is that of the server, with the text that it translates and `choices`, translations. */

const PAUSE_MS = 300; // in typing, until a text is translated
const STANDS_MS = 1000; // until a translation goes into the history
const UNSPACED = ["zh", "zh-Hant", "ja", "th", "lo", "km", "my", "yue", "bo"];
const FAULTS = { copy: "same" }; // names of labels that are not those of faults

Object.assign(chosen, { word: 0, choice: 0 });
let known = { directions: [], maxCharacters: Infinity, keyRequired: false, forms: [] }; // of the server
let pair = { source: "auto", target: "" };
let answer = null, trouble = null;
let asking = new AbortController(), typing, done = Promise.resolve();

const shownTranslation = () => answer?.choices[chosen.choice] ?? "";

/* ---- Languages ---- */

function languageName(code) {
  const one = known.directions.find(({ source, target }) => source === code || target === code);
  const given = one && (one.source === code ? one.sourceName : one.targetName);
  try {
    const name = new Intl.DisplayNames([document.documentElement.lang], { type: "language" }).of(code);
    return name === code && given ? given : name;
  } catch {
    return given ?? code;
  }
}

/** The languages to choose from; what is not there cannot stay chosen. */
function showLanguages() {
  const unique = (codes) => [...new Set(codes)], { directions } = known;
  const sources = unique(directions.map(({ source }) => source));
  if (!sources.includes(pair.source)) pair.source = "auto";
  const targets = unique(directions.filter(({ source }) => [source, "auto"].includes(pair.source)).map(({ target }) => target));
  if (!targets.includes(pair.target)) pair.target = targets[0] ?? "";
  const options = (codes) => codes.map((value) => make("option", { value }, value === "auto" ? say("auto") : languageName(value)));
  $("source").replaceChildren(...options(["auto", ...sources]));
  $("target").replaceChildren(...options(targets));
  for (const side of ["source", "target"]) $(side).value = pair[side];
  $("model").textContent = unique(directions.map(({ model }) => model)).join(", ");
}

/** The opposite of the direction shown, where some model has it. */
function opposite() {
  const source = pair.source === "auto" ? answer?.source : pair.source;
  return known.directions.find((one) => one.source === pair.target && one.target === source);
}

function openText({ text, source, target }) {
  $("input").value = text;
  pair = { source, target };
  showLanguages();
  translate();
  $("input").focus();
}

function languagesChanged() {
  pair = { source: $("source").value, target: $("target").value };
  unlink();
  showLanguages();
  translate();
  keepInterface();
}

function keepInterface() {
  store("interface", { language: chosen.language, dark: isDark(), ...pair });
}

/* ---- Translate ---- */

/** Translate when the typing pauses; what was asked before is of no more use. */
function soon() {
  asking.abort();
  clearTimeout(typing);
  clearTimeout(remembering);
  typing = setTimeout(translate, PAUSE_MS);
  showCount();
}

function translate() {
  clearTimeout(typing);
  typing = 0;
  asking.abort();
  asking = new AbortController();
  done = translateText($("input").value, asking.signal);
}

async function translateText(text, signal) {
  let found = null;
  trouble = null;
  showCount();
  const isWanted = text.trim() && pair.target && $("count").dataset.over !== "true";
  if (isWanted && known.keyRequired && !$("key").value) trouble = new Problem("keyMissing");
  else if (isWanted) {
    $("translation").setAttribute("aria-busy", "true");
    $("status").textContent = say("working");
    const fields = { text, ...pair, alternatives: 3, glossary: glossary(), ...($("key").value && { key: $("key").value }) };
    try {
      found = await askPatiently("api/translate", fields, signal, (problem) => { trouble = problem; showTrouble(); });
    } catch (problem) {
      if (signal.aborted) return;
      if (!(problem instanceof Problem)) throw problem;
      trouble = problem;
    }
  }
  answer = found && { ...found, text, choices: [found.translation, ...found.alternatives] };
  Object.assign(chosen, { choice: 0, word: 0, row: 0 });
  $("spoken").textContent = shownTranslation();
  show();
  if (answer) remembering = setTimeout(remember, STANDS_MS);
}

async function copy() {
  if (typing) translate();
  await done;
  if (answer) tellBriefly(await copied(shownTranslation()) ? "copied" : "notCopied");
}

function swap() {
  const found = opposite();
  if (!found) return;
  unlink();
  openText({ text: shownTranslation() || $("input").value, ...found });
  keepInterface();
}

/* ---- Show ---- */

function show() {
  showCount();
  showTrouble();
  showTranslation();
  showOthers();
  $("swap").disabled = !opposite();
  const [auto] = $("source").options;
  if (auto) auto.textContent = answer?.detected && pair.source === "auto" ? say("detected", languageName(answer.source)) : say("auto");
  look();
}

function showCount() {
  const n = [...$("input").value].length, most = known.maxCharacters;
  $("count").textContent = n && most < Infinity ? say("characters", n.toLocaleString("en"), most.toLocaleString("en")) : "";
  $("count").dataset.over = String(n > most);
  $("clear").hidden = !n;
  $("share").disabled = !n;
}

function showTrouble() {
  const over = $("count").dataset.over === "true" && say("tooLong", [...$("input").value].length, known.maxCharacters);
  $("problem").textContent = over || (trouble?.text ?? "");
  $("problem").hidden = !$("problem").textContent;
}

let telling;

function tellBriefly(name) {
  $("status").textContent = say(name);
  clearTimeout(telling);
  telling = setTimeout(showStatus, 2500);
}

function showStatus() {
  $("status").textContent = answer ? say("took", answer.milliseconds) : known.directions.length ? "" : say("loading");
}

function showTranslation() {
  const words = answer && chosen.choice === 0 ? answer.words : [];
  $("translation").setAttribute("aria-busy", "false");
  $("translation").lang = answer?.target ?? pair.target;
  if (words.length) $("translation").replaceChildren(...words.flatMap((word, i) => [...(word.space && i ? [" "] : []), wordButton(word, i)]));
  else if (answer) $("translation").textContent = shownTranslation();
  else $("translation").replaceChildren(make("span", { class: "muted" }, say("resultHere")));
  $("copy").disabled = !answer;
  $("legend").hidden = !words.length;
  $("quality").textContent = typeof answer?.confidence === "number" ? say("quality", Math.round(100 * answer.confidence)) : "";
  const faults = (answer?.faults ?? []).map((name) => FAULTS[name] ?? name).map((name) => (Object.hasOwn(WORDS, name) ? say(name) : name));
  $("notes").replaceChildren(...[...faults, ...(answer?.notes ?? [])].map((text) => make("li", {}, text)));
  showStatus();
}

/** A word of the translation; one of all is in the order of the Tab key, arrows go to the others. */
function wordButton({ text, probability }, i) {
  const level = probability >= 0.8 ? 0 : probability >= 0.5 ? 1 : probability >= 0.25 ? 2 : 3;
  return make("span", { class: `word level${level}`, role: "button", tabindex: i === chosen.word ? 0 : -1,
    "data-number": percent(probability), "aria-label": `${text}, ${percent(probability)}`, click: () => lookAt(i) }, text);
}

function wordKey(event) {
  const words = [...$("translation").querySelectorAll(".word")], at = words.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: words.length - 1 }[event.key];
  if (at < 0) return;
  if (["Enter", " "].includes(event.key) && !event.ctrlKey && !event.metaKey) lookAt(at);
  else if (!words[to]) return;
  else {
    words.forEach((word, i) => { word.tabIndex = i === to ? 0 : -1; });
    words[to].focus();
  }
  event.preventDefault();
}

/** Translations other than the one shown, to choose. */
function showOthers() {
  const choices = (answer?.choices ?? []).map((text, i) => [text, i]).filter(([, i]) => i !== chosen.choice);
  $("others").hidden = !choices.length;
  $("others").querySelector("ul").replaceChildren(...choices.map(([text, choice]) => make("li", {},
    make("button", { class: "choice", lang: answer.target, dir: "auto", click: () => { Object.assign(chosen, { choice, word: 0, row: 0 }); redraw(); } }, text))));
}

/* ---- Look inside ---- */

let inside = {}, looking = new AbortController(); // of: what is looked into; found: the answer; problem

function lookAt(word) {
  const wasOpen = $("inside").open;
  chosen.word = word;
  $("inside").open = true;
  redraw();
  if (!wasOpen) $("inside").scrollIntoView({ block: "nearest" });
}

/** Ask for the inside of the translation shown, once, if it is wanted. */
async function look() {
  $("inside").hidden = !answer;
  if (!answer || !$("inside").open) return;
  const { text, source, target } = answer, fields = { text, translation: shownTranslation(), source, target };
  const of = JSON.stringify(fields);
  if (of !== inside.of) {
    const now = inside = { of };
    looking.abort();
    looking = new AbortController();
    showInside();
    const { signal } = looking, tell = (problem) => { now.problem = problem; if (now === inside) showInside(); };
    try {
      now.found = await askPatiently("api/explain", { ...fields, ...($("key").value && { key: $("key").value }) }, signal, tell);
    } catch (problem) {
      if (signal.aborted) return;
      if (!(problem instanceof Problem)) throw problem;
      now.problem = problem;
    }
  }
  showInside();
}

function showInside() {
  const { found, problem } = inside;
  $("insideNote").textContent = problem?.text ?? (found ? "" : say("working"));
  $("picture").hidden = !found;
  if (!found) return;
  const maps = found[chosen.kind];
  chosen.layer = Math.min(chosen.layer, maps.length - 1);
  chosen.head = Math.min(chosen.head, maps[0].length - 1);
  $("kinds").replaceChildren(...kindButtons());
  $("heads").replaceChildren(...headButtons(maps.length, maps[0].length, attentionOf));
  $("map").replaceChildren(attentionTable(attentionOf(chosen.layer)));
  showWhy(found);
}

/** Of the chosen kind, in the form that `headButtons` and `attentionTable` take. */
function attentionOf(layer) {
  const { sourcePieces, inputPieces, outputPieces } = inside.found, maps = inside.found[chosen.kind][layer];
  const [rows, columns] = { encoder: [sourcePieces, sourcePieces], decoder: [inputPieces, inputPieces], cross: [outputPieces, sourcePieces] }[chosen.kind];
  const seen = (head, t) => (chosen.kind === "decoder" ? head[t].slice(0, t + 1) : head[t]);
  return { rows, columns, of: rows.map((_, t) => ({ shares: maps.map((head) => seen(head, t)) })) };
}

function showWhy({ sourcePieces, outputPieces, cross, zeroing }) {
  const sources = wordsOf(sourcePieces, answer.source), outputs = wordsOf(outputPieces, answer.target);
  chosen.word = Math.min(chosen.word, outputs.length - 1);
  const [first] = outputs[chosen.word][1];
  const attention = mean(cross.flatMap((layer) => layer.map((head) => head[first])));
  const ofWords = (shares) => sources.map(([, places]) => places.reduce((sum, s) => sum + shares[s], 0));
  $("outputs").replaceChildren(...outputs.map(([text], i) => press(text, i === chosen.word, () => { chosen.word = i; })));
  $("outputs").lang = answer.target;
  $("why").replaceChildren(decidingBars(sources.map(([text]) => text), ofWords(zeroing[first]), ofWords(attention)));
}

/** Words as [text, positions of their pieces]; the last one is the end of the sentence. */
function wordsOf(pieces, language) {
  const byte = (i) => /^<0x([0-9A-F]{2})>$/.exec(pieces[i])?.[1], encoder = new TextEncoder();
  const bytes = (i) => (byte(i) ? [parseInt(byte(i), 16)] : encoder.encode(pieces[i].replaceAll("▁", " ")));
  const groups = wordPlaces(pieces.slice(0, -1), (i) => byte(i) !== undefined, UNSPACED.includes(language));
  const text = (places) => new TextDecoder().decode(new Uint8Array(places.flatMap((i) => [...bytes(i)]))).trim() || "␣";
  return [...groups.map((places) => [text(places), places]), ["⏎", [pieces.length - 1]]];
}

/* ---- Begin ---- */

/** Everything whose labels the page sets itself. */
function showAll() {
  $("input").placeholder = say("typeHere");
  showLanguages();
  showTerms();
  showFiles();
  showPast();
  show();
}

function listen() {
  $("input").addEventListener("input", () => { unlink(); soon(); });
  $("key").addEventListener("input", () => { sessionStorage.setItem("tmt.key", $("key").value); soon(); });
  for (const side of ["source", "target"]) $(side).onchange = languagesChanged;
  Object.assign($("swap"), { onclick: swap });
  $("clear").onclick = () => { unlink(); openText({ text: "", ...pair }); };
  $("copy").onclick = copy;
  $("share").onclick = share;
  $("translation").addEventListener("keydown", wordKey);
  $("inside").addEventListener("toggle", look);
  $("addTerm").onclick = addTerm;
  $("choose").onclick = () => $("file").click();
  $("file").onchange = () => { addFiles($("file").files); $("file").value = ""; };
  $("forget").onclick = forget;
  takeDroppedFiles();
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    copy();
  });
  window.addEventListener("hashchange", openLink);
  window.addEventListener("pagehide", () => { if (!typing) remember(); });
}

function openLink() {
  const { text, source, target } = linked() ?? {};
  if (text !== undefined) openText({ text, source: source ?? "auto", target: target ?? pair.target });
}

async function begin() {
  const kept = stored("interface", {});
  const wanted = { source: kept.source ?? "auto", target: kept.target ?? "" };
  $("key").value = sessionStorage.getItem("tmt.key") ?? "";
  beginInterface(kept, () => { showAll(); keepInterface(); });
  showAll();
  listen();
  known = await askPatiently("api/languages", undefined, new AbortController().signal, (problem) => { trouble = problem; showTrouble(); }, Infinity);
  pair = wanted;
  $("keyRow").hidden = !known.keyRequired;
  $("forms").textContent = known.forms.join(" ");
  $("file").accept = known.forms.join(",");
  showAll();
  if (linked()) openLink();
  else translate();
}

const fail = (error) => { $("problem").hidden = false; $("problem").textContent = `${say("failed")} ${error.text ?? error.message ?? error}`; };
window.addEventListener("error", (event) => fail(event.error ?? event.message));
begin().catch(fail);
