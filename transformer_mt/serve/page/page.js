"use strict";
/* The page of the server: what is typed is translated, and can be looked into.
 * `answer` is that of the server, with the text that it translates, and `choices`, its translations. */

const PAUSE_MS = 300; // in typing, until a text is translated
const STANDS_MS = 1000; // until a translation goes into the history

Object.assign(chosen, { word: 0, choice: 0 });
let known = { directions: [], maxCharacters: Infinity }; // of the server
let pair = { source: "auto", target: "" };
let answer = null, trouble = null, busy = false; // the server is asked
let asking = new AbortController(), typing, done = Promise.resolve();

const shownTranslation = () => answer?.choices[chosen.choice] ?? "";
const tell = (problem) => { trouble = problem; showInput(); };
const withKey = (fields) => ($("key").value ? { ...fields, key: $("key").value } : fields);

/* ---- Languages ---- */

function languageName(code) {
  const given = new Map(known.directions.flatMap((one) => [[one.source, one.sourceName], [one.target, one.targetName]]));
  return new Intl.DisplayNames([document.documentElement.lang], { type: "language", fallback: "none" }).of(code) ?? given.get(code) ?? code;
}

/** The languages to choose from; another cannot be chosen. */
function showLanguages() {
  const unique = (codes) => [...new Set(codes)], { directions } = known;
  const sources = unique(directions.map(({ source }) => source));
  const source = sources.includes(pair.source) ? pair.source : "auto";
  const targets = unique(directions.filter((one) => [one.source, "auto"].includes(source)).map((one) => one.target));
  pair = { source, target: targets.includes(pair.target) ? pair.target : targets[0] ?? "" };
  const options = (codes) => codes.map((value) => make("option", { value }, value === "auto" ? say("auto") : languageName(value)));
  $("source").replaceChildren(...options(["auto", ...sources]));
  $("target").replaceChildren(...options(targets));
  for (const side of ["source", "target"]) $(side).value = pair[side];
  $("model").textContent = unique(directions.map(({ model }) => model)).join(", ");
  $("choose").disabled = !pair.target;
}

/** The direction back, where some model has it. */
function opposite() {
  const source = pair.source === "auto" ? answer?.source : pair.source;
  return known.directions.find((one) => one.source === pair.target && one.target === source);
}

const whenSettled = async (act) => { if (typing) translate(); const mine = asking; await done; if (mine === asking && !mine.signal.aborted) await act(); }; // not if another text is asked for meanwhile
const swap = () => whenSettled(() => { const back = opposite(); if (back) openText({ text: shownTranslation() || $("input").value, ...back }); });

/* ---- Translate ---- */

/** Translate when the typing pauses; what was asked before is of no more use. */
function soon() {
  asking.abort();
  clearTimeout(remembering);
  clearTimeout(typing);
  typing = setTimeout(translate, PAUSE_MS);
  showInput();
}

function translate() {
  clearTimeout(typing);
  typing = 0;
  asking.abort();
  asking = new AbortController();
  done = translateText($("input").value);
}

function openText({ text, ...languages }, isLink = false) {
  goesOn = false;
  if (!isLink) unlink();
  $("input").value = text ?? $("input").value;
  Object.assign(pair, languages);
  showLanguages();
  translate();
  keepInterface(pair);
}

const isTooLong = () => [...$("input").value].length > known.maxCharacters;

async function translateText(text) {
  const isWanted = text.trim() && pair.target && !isTooLong(), needsKey = isWanted && known.keyRequired && !$("key").value;
  let found = null;
  tell(needsKey ? new Problem("keyMissing") : pair.target ? null : trouble); // why there are no languages
  busy = Boolean(isWanted && !needsKey);
  if (busy) {
    showStatus();
    found = await askPatiently("api/translate", withKey({ text, ...pair, alternatives: 3, glossary: sentTerms() }), tell, asking);
    if (found === undefined) return;
  }
  busy = false;
  answer = found && { ...found, text, choices: [found.translation, ...found.alternatives] };
  Object.assign(chosen, { choice: 0, word: 0, row: 0 });
  Object.assign($("spoken"), { lang: answer?.target ?? "", textContent: shownTranslation() });
  show();
  if (answer) remembering = setTimeout(remember, STANDS_MS);
}

const copy = () => whenSettled(async () => { if (answer) tellBriefly(await copied(shownTranslation()) ? "copied" : "notCopied"); });

/* ---- Show ---- */

function show() {
  showInput();
  showTranslation();
  showOthers();
  $("swap").disabled = !opposite();
  const isDetected = answer?.detected && pair.source === "auto";
  $("source").options[0].textContent = isDetected ? say("detected", languageName(answer.source)) : say("auto");
  look();
}

function showInput() {
  const [n, most] = [[...$("input").value].length, known.maxCharacters].map((count) => count.toLocaleString("en"));
  $("count").textContent = say("characters", n, most);
  $("termCount").textContent = glossary().length || "";
  $("clear").disabled = $("share").disabled = !$("input").value;
  const problem = isTooLong() ? say("tooLong", known.maxCharacters) : trouble?.text ?? "";
  if ($("problem").textContent !== problem) $("problem").textContent = problem; // or it would be read aloud again
  $("problem").hidden = !problem;
}

function showStatus() {
  $("translation").setAttribute("aria-busy", String(busy));
  $("status").textContent = busy ? say("working") : answer ? say("took", answer.milliseconds) : known.directions.length || trouble?.wait === null ? "" : say("loading");
}

function tellBriefly(name) {
  $("status").textContent = say(name);
  setTimeout(() => { if ($("status").textContent === say(name)) showStatus(); }, 2500);
}

function showTranslation() {
  const words = answer && chosen.choice === 0 ? answer.words : [];
  $("translation").lang = answer?.target ?? pair.target;
  if (words.length) $("translation").replaceChildren(...words.flatMap((word, i) => [word.space && i ? " " : "", wordButton(word, i)]));
  else $("translation").replaceChildren(answer ? shownTranslation() : make("span", { class: "muted" }, say("resultHere")));
  $("copy").disabled = !answer;
  $("legend").hidden = !words.length;
  $("quality").textContent = chosen.choice === 0 && typeof answer?.confidence === "number" ? say("quality", Math.round(100 * answer.confidence)) : "";
  const ofBest = chosen.choice === 0 ? answer?.faults ?? [] : [];
  const faults = ofBest.map((name) => (Object.hasOwn(WORDS, `${name}Fault`) ? say(`${name}Fault`) : name));
  $("notes").replaceChildren(...[...faults, ...(answer?.notes ?? [])].map((text) => make("li", {}, text)));
  showStatus();
}

/** A word of the translation; one of all is in the order of the Tab key, arrows go to the others. */
function wordButton({ text, probability }, i) {
  const level = [0.8, 0.5, 0.25].filter((least) => probability < least).length;
  return make("span", { class: `word level${level}`, role: "button", tabindex: i === Math.min(chosen.word, answer.words.length - 1) ? 0 : -1,
    "data-number": percent(probability), "aria-label": `${text}, ${percent(probability)}`, click: () => lookAt(i) }, text);
}

function wordKey(event) {
  const words = [...$("translation").querySelectorAll(".word")], at = words.indexOf(document.activeElement);
  const step = getComputedStyle($("translation")).direction === "rtl" ? -1 : 1;
  const to = { ArrowRight: at + step, ArrowLeft: at - step, Home: 0, End: words.length - 1 }[event.key];
  if (at < 0 || event.ctrlKey || event.metaKey) return;
  if (["Enter", " "].includes(event.key)) lookAt(at);
  else if (!words[to]) return;
  else {
    words.forEach((word, i) => { word.tabIndex = i === to ? 0 : -1; });
    words[to].focus();
  }
  event.preventDefault();
}

/** Translations other than the one shown, to choose. */
function showOthers() {
  const choose = (choice) => { Object.assign(chosen, { choice, word: 0, row: 0 }); redraw(); };
  const buttons = (answer?.choices ?? []).map((text, i) => make("button", { class: "choice", lang: answer.target, dir: "auto", click: () => choose(i) }, text));
  buttons.splice(chosen.choice, 1);
  $("others").hidden = !buttons.length;
  $("choices").replaceChildren(...buttons.map((button) => make("li", {}, button)));
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

/** Ask for the inside of the translation shown, once, if it is wanted; each line is translated by itself. */
async function look() {
  $("inside").hidden = !answer || answer.text.trim().includes("\n");
  if ($("inside").hidden || !$("inside").open) return;
  const { text, source, target } = answer, fields = { text, translation: shownTranslation(), source, target };
  const of = JSON.stringify(fields);
  if (of === inside.of) return showInside();
  const now = inside = { of };
  looking.abort();
  looking = new AbortController();
  showInside();
  now.found = await askPatiently("api/explain", withKey(fields), (problem) => { now.problem = problem; showInside(); }, looking);
  showInside();
}

function showInside() {
  const { found, problem } = inside;
  $("insideNote").textContent = problem?.text ?? (found ? "" : say("working"));
  $("picture").hidden = !found;
  if (!found || !answer) return;
  showAttention(chooseKind(found).length, found[chosen.kind][0].length, attentionOf, kindsOf(found));
  showWhy(found);
}

/** Of the chosen kind, as `showAttention` takes it. */
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
  $("why").replaceChildren(decidingBars(sources.map(([text]) => text), zeroing[first], ofWords(attention)));
}

const isUnspaced = (code) => known.directions.some((one) => (one.source === code && one.sourceUnspaced) || (one.target === code && one.targetUnspaced));

/** Words as [text, positions of their pieces]; the last one is the end of the sentence. */
function wordsOf(pieces, language) {
  const byte = (i) => /^<0x([0-9A-F]{2})>$/.exec(pieces[i])?.[1], encoder = new TextEncoder();
  const bytes = (i) => (byte(i) ? [parseInt(byte(i), 16)] : encoder.encode(pieces[i].replaceAll("▁", " ")));
  const groups = wordPlaces(pieces.slice(0, -1), (i) => byte(i) !== undefined, isUnspaced(language));
  const text = (places) => new TextDecoder().decode(new Uint8Array(places.flatMap((i) => [...bytes(i)]))).trim() || "␣";
  return [...groups.map((places) => [text(places), places]), ["⏎", [pieces.length - 1]]];
}

/* ---- Begin ---- */

/** Everything with labels that the markup does not name. */
function showAll() {
  $("input").placeholder = say("typeHere");
  showLanguages();
  showTerms();
  showFiles();
  showPast();
  show();
}

function listen() {
  const clicks = { swap, copy, share, addTerm, forget, choose: () => $("file").click(), clear: () => { openText({ text: "" }); $("input").focus(); } };
  for (const [id, click] of Object.entries(clicks)) $(id).onclick = click;
  for (const side of ["source", "target"]) $(side).onchange = () => openText({ [side]: $(side).value });
  $("input").oninput = ({ inputType }) => { if (inputType === "insertFromPaste") goesOn = false; unlink(); soon(); };
  $("input").addEventListener("compositionstart", () => { composing = true; });
  $("input").addEventListener("compositionend", () => { composing = false; if (answer?.text === $("input").value) remember(); else soon(); });
  $("key").oninput = () => { store("key", $("key").value, () => sessionStorage); soon(); };
  $("file").onchange = () => { addFiles($("file").files); $("file").value = ""; };
  $("translation").onkeydown = wordKey;
  $("inside").ontoggle = () => { if (inside.problem) inside.of = ""; look(); }; // asked again when it is opened again
  document.ondragover = document.ondragleave = document.ondrop = drag;
  document.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); copy(); } };
  window.onstorage = changedElsewhere;
  window.onhashchange = () => openText(linked(), true);
  window.onpagehide = () => { if (!typing) remember(); };
}

async function begin() {
  const { source, target } = stored("interface") ?? {};
  $("key").value = stored("key", () => sessionStorage) ?? "";
  beginInterface(showAll);
  showAll();
  listen();
  known = (await askPatiently("api/languages", null, tell, undefined, Infinity)) ?? known;
  pair = { source, target };
  $("keyRow").hidden = !known.keyRequired;
  $("forms").textContent = known.forms?.join(" ") ?? "";
  $("file").accept = known.forms?.join(",") ?? "";
  showAll();
  openText(linked(), true);
}

begin().catch(fail);
