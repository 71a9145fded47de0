"use strict";
/* Parts of the pages that translate: elements, labels in two languages, light and dark, attention.
 * A page adds its own labels to `WORDS`, and its function `show()` draws the state `chosen`.
 * Text is only ever set as text, so that no sentence and no vocabulary becomes markup. */

const WORDS = { // English, Chinese
  theme: ["Light or dark", "浅色或深色"],
  failed: ["The page could not go on:", "页面出错："],
  why: ["What decided this word", "是什么决定了这个词"],
  whyText: ["Choose a word of the translation above. Value zeroing: how far its probability moves when the values of a source word are set to zero. Beside it the raw attention, mean of all heads of cross-attention. Attention says where a head looks, which is often not what decides: trust the first column.",
    "在上面的译文里点一个词。“置零”：把一个原文词的值向量设为零，看译文词的概率变化多少。旁边是原始注意力（所有交叉注意力头的平均）。注意力只说明头在看哪里，往往不是真正起决定作用的地方，请以第一列为准。"],
  zeroing: ["value zeroing", "置零"],
  raw: ["raw attention", "原始注意力"],
  attention: ["Attention, head by head", "逐头看注意力"],
  cross: ["cross-attention", "交叉注意力"],
  encoder: ["encoder", "编码器"],
  decoder: ["decoder", "解码器"],
  head: ["layer {} head {}", "第 {} 层 第 {} 头"],
};

const $ = (id) => document.getElementById(id);
const chosen = { language: 0, kind: "cross", layer: 0, head: 0, row: 0 };
const ATTENTION = ["encoder", "decoder", "cross"]; // its kinds; a recurrent model has the last alone

/* ---- What the browser keeps, if it lets a page keep anything ---- */

function stored(name, storage = () => localStorage) {
  try {
    return JSON.parse(storage().getItem(`tmt.${name}`));
  } catch {
    return null;
  }
}

function store(name, value, storage = () => localStorage) {
  try {
    storage().setItem(`tmt.${name}`, JSON.stringify(value));
  } catch { /* it is full, or the browser keeps nothing */ }
}

const keepInterface = (choice) => store("interface", { ...stored("interface"), ...choice });

/* ---- Labels ---- */

function say(name, ...values) {
  let at = 0;
  return WORDS[name][chosen.language].replace(/\{(\d?)\}/g, (_, place) => values[place || at++]);
}

/** Set all labels that the markup names: `data-say` the text, `data-label` the accessible name. */
function speak() {
  document.documentElement.lang = chosen.language ? "zh-Hans" : "en";
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", say(element.dataset.label));
  Object.assign($("language"), { textContent: chosen.language ? "English" : "中文", lang: chosen.language ? "en" : "zh-Hans" });
  $("theme").textContent = say("theme");
}

const isDark = () => document.documentElement.dataset.theme === "dark";
const setDark = (dark) => { document.documentElement.dataset.theme = dark ? "dark" : "light"; };

/** Begin in the reader's language and colours; the buttons `language` and `theme` change them. */
function beginInterface(showAgain = show) {
  const { language, dark } = stored("interface") ?? {};
  setDark(dark ?? matchMedia("(prefers-color-scheme: dark)").matches);
  chosen.language = [0, 1].includes(language) ? language : (navigator.language.startsWith("zh") ? 1 : 0);
  speak();
  $("language").onclick = () => { chosen.language = 1 - chosen.language; speak(); showAgain(); keepInterface({ language: chosen.language }); };
  $("theme").onclick = () => { setDark(!isDark()); showAgain(); keepInterface({ dark: isDark() }); };
}

function fail(error) {
  const text = `${say("failed")} ${error.message ?? error}`;
  Object.assign($("problem") ?? $("status"), { textContent: text, hidden: false });
}

/* ---- Elements ---- */

/** An element with attributes (functions listen to events) and children (text stays text). */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "text"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "style") element.style.cssText = value; // a policy may forbid the attribute
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const mean = (rows) => Array.from(rows[0], (_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);

function press(text, pressed, choose, attributes = {}) {
  return make("button", { "aria-pressed": String(pressed), click: () => { choose(); redraw(); }, ...attributes }, text);
}

/** Show again; the button that takes the place of the focused one gets the focus. */
function redraw() {
  const { activeElement } = document, holder = activeElement?.closest("[id]");
  const buttons = () => [...(holder ? $(holder.id).querySelectorAll("button, [role=button]") : [])];
  const at = buttons().indexOf(activeElement);
  show();
  buttons()[at]?.focus({ preventScroll: true });
}

/** Positions of the sub-words of each word. A space begins a new one; in Chinese each sub-word, with
 * a space of its own before it. */
function wordPlaces(pieces, isByte, unspaced) {
  const groups = [];
  pieces.forEach((piece, i) => {
    const joins = i > 0 && ((isByte(i) && isByte(i - 1)) || (unspaced && pieces[i - 1] === "▁"));
    const starts = unspaced ? !joins : piece.startsWith("▁") && !joins;
    if (groups.length && !starts) groups.at(-1).push(i);
    else groups.push([i]);
  });
  return groups;
}

/* ---- Attention: of[row].shares[head][column] are the shares of a row, from 0 to 1 ---- */

/** Bars of each source word. `shares` of a column: one for each name; null: not known yet. */
function decidingBars(names, zeroing, raw) {
  const bar = (shares, i, label) => make("div", { class: "bar", role: "img", "aria-label": `${names[i]}, ${say(label)} ${percent(shares?.[i] ?? 0)}` },
    make("i", { style: `width:${(100 * (shares?.[i] ?? 0)).toFixed(1)}%` }), make("span", {}, shares ? percent(shares[i]) : "…"));
  const rows = names.flatMap((name, i) => [make("span", {}, name), bar(zeroing, i, "zeroing"), bar(raw, i, "raw")]);
  return make("div", { class: "bars" }, make("span"), make("span", { class: "axis" }, say("zeroing")), make("span", { class: "axis" }, say("raw")), ...rows);
}

/** Choices of kind, layer and head, and the chosen head. `attention(layer)` has { rows, columns, of }, of the chosen kind. */
function showAttention(layers, heads, attention, kinds = ATTENTION) {
  Object.assign(chosen, { layer: Math.min(chosen.layer, layers - 1), head: Math.min(chosen.head, heads - 1) });
  $("kinds").replaceChildren(...kindButtons(kinds));
  $("heads").replaceChildren(...headButtons(layers, heads, attention));
  $("map").setAttribute("aria-label", say("attention"));
  $("map").replaceChildren(attentionTable(attention(chosen.layer)));
}

const kindsOf = (found) => ATTENTION.filter((kind) => found[kind].length);

/** The maps of the chosen kind, or of the first that there is. */
function chooseKind(found) {
  if (!found[chosen.kind].length) [chosen.kind] = kindsOf(found);
  return found[chosen.kind];
}

function kindButtons(kinds) {
  return kinds.map((kind) =>
    press(say(kind), kind === chosen.kind, () => Object.assign(chosen, { kind, row: 0, layer: 0 })));
}

/** A small picture of each head, to choose it. */
function headButtons(layers, heads, attention) {
  const buttons = [];
  for (let layer = 0; layer < layers; layer++) {
    const { of, columns } = attention(layer);
    for (let head = 0; head < heads; head++) {
      const name = say("head", layer + 1, head + 1);
      const canvas = paint(of.map((row) => row.shares[head]), columns.length, (share) => share);
      buttons.push(press("", layer === chosen.layer && head === chosen.head, () => Object.assign(chosen, { layer, head }), { "aria-label": `${layer + 1}·${head + 1} ${name}` }));
      buttons.at(-1).append(canvas, `${layer + 1}·${head + 1}`);
    }
  }
  return buttons;
}

/** Rows of numbers as a picture, one pixel each; `share` says how strong, −1 to 1. */
function paint(rows, width, share, attributes = {}) {
  const canvas = make("canvas", { width, height: rows.length, "aria-hidden": "true", ...attributes });
  const context = canvas.getContext("2d"), image = context.createImageData(width, rows.length);
  const [cold, hot, negative] = isDark() ? [[24, 33, 44], [114, 180, 255], [255, 171, 112]] : [[243, 247, 252], [11, 70, 166], [168, 74, 18]];
  rows.forEach((row, y) => row.forEach((value, x) => {
    const strength = Math.max(-1, Math.min(1, share(value))), to = strength < 0 ? negative : hot;
    cold.forEach((from, c) => { image.data[4 * (y * width + x) + c] = from + (to[c] - from) * Math.abs(strength); });
    image.data[4 * (y * width + x) + 3] = 255;
  }));
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A cell coloured by a share; none has a colour on which neither ink nor paper could be read. */
function cell(share, text) {
  const colour = share > 0.5 ? 0.7 + 0.3 * share : 0.7 * share;
  return make("td", { class: `heat${share > 0.5 ? " strong" : ""}`, style: `--share:${colour.toFixed(3)}` }, text);
}

/** The chosen head in numbers, in percent. */
function attentionTable({ rows, columns, of }) {
  chosen.row = Math.min(chosen.row, rows.length - 1);
  return make("table", {},
    make("thead", {}, make("tr", {}, make("td"), ...columns.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((name, r) => make("tr", {},
      make("th", { scope: "row" }, press(name, r === chosen.row, () => { chosen.row = r; })),
      ...columns.map((_, c) => {
        const share = of[r].shares[chosen.head][c];
        return share === undefined ? make("td", { class: "hidden" }, "") : cell(share, share >= 0.005 ? String(Math.round(100 * share)) : "");
      })))));
}

window.addEventListener("error", (event) => fail(event.error ?? event.message));
