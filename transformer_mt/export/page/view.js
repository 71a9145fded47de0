"use strict";
/* The page around the engine: what is typed is translated, and every number behind it can be seen.
 * Text is only ever set as text, so that no sentence and no vocabulary becomes markup. */

const WORDS = { // English, Chinese
  input: ["Type a sentence", "输入句子"],
  beam: ["Beam", "束宽"],
  theme: ["Light or dark", "浅色或深色"],
  loading: ["Reading the model …", "正在读取模型……"],
  old: ["This browser cannot unpack the model. Chrome 103, Firefox 113 and Safari 16.4 or newer can.",
    "这个浏览器无法解压模型，请用 Chrome 103、Firefox 113、Safari 16.4 或更新的版本。"],
  failed: ["The page could not go on:", "页面出错："],
  took: ["{} ms, {} sub-words", "用时 {} 毫秒，{} 个子词"],
  cut: ["the translation was cut at the length limit", "译文达到长度上限，被截断"],
  part: ["Part {}", "第 {} 段"],
  why: ["What decided this word", "是什么决定了这个词"],
  whyText: ["Choose a word of the translation above. Value zeroing: how far its probability moves when the values of a source word are set to zero. Beside it the raw attention, mean of all heads of cross-attention. Attention says where a head looks, which is often not what decides: trust the first column.",
    "在上面的译文里点一个词。“置零”：把一个原文词的值向量设为零，看译文词的概率变化多少。旁边是原始注意力（所有交叉注意力头的平均）。注意力只说明头在看哪里，往往不是真正起决定作用的地方，请以第一列为准。"],
  zeroing: ["value zeroing", "置零"],
  raw: ["raw attention", "原始注意力"],
  instead: ["Most probable here; choose one to go on from it:", "此处概率最高的子词；点一个，就从它继续："],
  end: ["end of sentence", "句末"],
  attention: ["Attention, head by head", "逐头看注意力"],
  attentionText: ["Each row is one position, and sums to 1: how much of every column's value it takes. Choose a row for the numbers below.",
    "每一行是一个位置，和为 1：它从各列的值里各取多少。点一行，下面显示它的计算过程。"],
  cross: ["cross-attention", "交叉注意力"],
  encoder: ["encoder", "编码器"],
  decoder: ["decoder", "解码器"],
  head: ["layer {} head {}", "第 {} 层 第 {} 头"],
  steps: ["Step by step", "一步一步算"],
  stepsText: ["One head, one row: the query times every key, divided by √d_k, masked, softmax, and the values mixed by these shares.",
    "一个头、一行：查询乘以每个键，除以 √d_k，掩码，softmax，再按所得份额混合各个值。"],
  next: ["Next step", "下一步"],
  all: ["All steps", "全部显示"],
  mixed: ["· V: the mix, its first {} of {} numbers:", "· V：混合结果，{1} 个数中的前 {0} 个："],
  search: ["The search", "搜索过程"],
  searchText: ["At each step the most probable continuations; those in grey left the beam. The percentage is the probability of the sub-word at its place.",
    "每一步概率最高的续写；灰色的已离开束。百分比是该子词在此处的概率。"],
  vectors: ["Sub-words and their vectors", "子词与向量"],
  vectorsText: ["How the model spells the sentence, each sub-word's embedding with its position, and the encoder's last state.",
    "模型怎样切分句子；每个子词的词向量（加上位置），以及编码器最后一层的状态。"],
  embedding: ["embedding", "词向量"],
  state: ["last state", "最后状态"],
};

const $ = (id) => document.getElementById(id);
const chosen = { language: 0, word: 0, part: 0, kind: "cross", layer: 0, head: 0, row: 0, shown: 5 };
let translator, parts = [];

function say(name, ...values) {
  const [first, ...rest] = WORDS[name][chosen.language].split(/\{(\d?)\}/);
  let at = 0, text = first;
  for (let i = 0; i < rest.length; i += 2) text += values[rest[i] === "" ? at++ : Number(rest[i])] + rest[i + 1];
  return text;
}

/** An element with attributes (functions listen to events) and children (text stays text). */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "text"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const number = (value) => (value === -Infinity ? "−∞" : value.toFixed(2).replace("-", "−"));

/** Sub-words as words: [text, positions]. A space, or nothing in Chinese, begins a new one. */
function words(tokenizer, ids, unspaced) {
  const groups = [];
  ids.forEach((id, i) => {
    const joins = tokenizer.byteOf.has(id) && i > 0 && tokenizer.byteOf.has(ids[i - 1]);
    const starts = unspaced ? !joins : tokenizer.pieces[id].startsWith("▁") && !joins;
    if (groups.length && !starts) groups.at(-1).push(i);
    else groups.push([i]);
  });
  return groups.map((places) => [tokenizer.decode(places.map((i) => ids[i])).trim() || "␣", places]);
}

const spelled = (tokenizer, id) => (id === EOS ? "⏎" : tokenizer.pieces[id]);

/* ---- Translate ---- */

function translatePart(text, ids, prefix = []) {
  const found = translator.search(ids, { beam: Number($("beam").value), prefix });
  const best = found.hypotheses[0];
  const unspaced = { src: translator.rules.src.chinese, tgt: translator.model.joint === "" };
  return { ...found, best, text, src: ids, moved: {}, forced: translator.forced(found.source, best.ids),
    srcWords: words(translator.src, ids, unspaced.src), tgtWords: words(translator.tgt, best.ids, unspaced.tgt) };
}

let waiting;
function translate() {
  clearTimeout(waiting);
  const started = performance.now(), segments = translator.segments($("input").value);
  parts = [];
  Object.assign(chosen, { part: 0, word: 0, row: 0 });
  const next = () => {
    if (parts.length < segments.length) {
      parts.push(translatePart(...segments[parts.length]));
      showTranslation();
      waiting = setTimeout(next, 0); // what is typed meanwhile stops the rest
      return;
    }
    const n = parts.reduce((sum, part) => sum + part.src.length + part.best.ids.length, 0);
    const cut = parts.some((part) => !part.best.complete);
    $("status").textContent = parts.length ? say("took", Math.round(performance.now() - started), n) + (cut ? ` · ${say("cut")}` : "") : "";
    show();
  };
  next();
}

/** Go on from other sub-words than the search has chosen. */
function force(part, prefix) {
  parts[part] = translatePart(parts[part].text, parts[part].src, prefix);
  chosen.word = Math.max(0, parts[part].tgtWords.findIndex(([, places]) => places.includes(prefix.length - 1)));
  show();
}

/* ---- Show ---- */

function show() {
  showTranslation();
  $("inside").hidden = !parts.length;
  if (!parts.length) return;
  const part = parts[chosen.part];
  $("parts").replaceChildren(...(parts.length < 2 ? [] : parts.map((one, i) =>
    press(`${say("part", i + 1)}: ${one.text.slice(0, 12)}`, i === chosen.part, () => Object.assign(chosen, { part: i, word: 0, row: 0 })))));
  showWhy(part);
  showHeads(part);
  showMap(part);
  showNumbers(part);
  showTree(part);
  showVectors(part);
}

function press(text, pressed, choose, attributes = {}) {
  return make("button", { "aria-pressed": String(pressed), click: () => { choose(); show(); }, ...attributes }, text);
}

function showTranslation() {
  $("translation").replaceChildren(...parts.flatMap((part, p) => part.tgtWords.map(([text, places], w) =>
    press(text, p === chosen.part && w === chosen.word, () => Object.assign(chosen, { part: p, word: w, row: places[0] })))));
}

let asking; // of the word that was chosen last

function showWhy(part) {
  const [, [first]] = part.tgtWords[chosen.word] ?? ["", [0]], written = [...part.best.ids, EOS];
  const { cross, logProbs } = part.forced[first];
  const groups = [...part.srcWords, ["⏎", [part.src.length]]];
  const attention = mean(cross.flatMap((layer) => layer.shares)), moved = part.moved[first] ?? [];
  const raw = groups.map(([, of]) => of.reduce((sum, s) => sum + attention[s], 0));
  const total = moved.length === groups.length ? moved.reduce((a, b) => a + b) || 1 : Infinity;
  const bar = (share, name, label) => make("div", { class: "bar", role: "img", "aria-label": `${name}, ${say(label)} ${percent(share)}` },
    make("i", { style: `width:${(100 * share).toFixed(1)}%` }), make("span", {}, total === Infinity && label === "zeroing" ? "…" : percent(share)));
  const rows = groups.flatMap(([name], i) => [make("span", {}, name), bar((moved[i] ?? 0) / total, name, "zeroing"), bar(raw[i], name, "raw")]);
  const others = translator.allowed(logProbs, 8).map((id) => make("button",
    { click: () => force(chosen.part, [...part.best.ids.slice(0, first), id]), ...(id === EOS && { disabled: "" }) },
    `${id === EOS ? say("end") : spelled(translator.tgt, id)} ${percent(Math.exp(logProbs[id]))}`));
  $("why").replaceChildren(
    make("div", { class: "bars" }, make("span"), make("span", { class: "axis" }, say("zeroing")), make("span", { class: "axis" }, say("raw")), ...rows),
    make("h3", {}, say("instead")), make("div", { class: "row" }, ...others));
  clearTimeout(asking);
  if (moved.length === groups.length) return;
  asking = setTimeout(() => { // as many source words as a frame has time for, then the page may answer
    const until = performance.now() + 30;
    part.moved[first] = moved;
    while (moved.length < groups.length && performance.now() < until) {
      moved.push(translator.moved(part.source, part.best.ids.slice(0, first), written[first], groups[moved.length][1]));
    }
    showWhy(part);
  }, 0);
}

const mean = (rows) => Array.from(rows[0], (_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);

/** Names of rows and columns, and the attention of each row, of a layer of one kind. */
function attentionOf(part, kind, layer) {
  const src = [...part.src, EOS].map((id) => spelled(translator.src, id));
  const read = ["<s>", ...part.best.ids.map((id) => spelled(translator.tgt, id))];
  if (kind === "encoder") return { rows: src, columns: src, of: part.source.attention[layer] };
  const of = part.forced.map((step) => (kind === "cross" ? step.cross : step.own)[layer]);
  return kind === "cross" ? { rows: [...read.slice(1), "⏎"], columns: src, of } : { rows: read, columns: read, of };
}

function showHeads(part) {
  const { encoder_layers, decoder_layers, heads } = translator.model.config;
  $("kinds").replaceChildren(...["encoder", "decoder", "cross"].map((kind) =>
    press(say(kind), kind === chosen.kind, () => Object.assign(chosen, { kind, row: 0, layer: 0 }))));
  const layers = chosen.kind === "encoder" ? encoder_layers : decoder_layers, buttons = [];
  for (let layer = 0; layer < layers; layer++) {
    const { of, columns } = attentionOf(part, chosen.kind, layer);
    for (let head = 0; head < heads; head++) {
      const name = say("head", layer + 1, head + 1);
      const canvas = paint(of.map((row) => row.shares[head]), columns.length, (share) => share);
      buttons.push(press("", layer === chosen.layer && head === chosen.head, () => Object.assign(chosen, { layer, head }), { "aria-label": `${layer + 1}·${head + 1} ${name}` }));
      buttons.at(-1).append(canvas, `${layer + 1}·${head + 1}`);
    }
  }
  $("heads").replaceChildren(...buttons);
}

/** Rows of numbers as a picture, one pixel each; `share` says how strong, −1 to 1. */
function paint(rows, width, share, attributes = {}) {
  const canvas = make("canvas", { width, height: rows.length, "aria-hidden": "true", ...attributes });
  const context = canvas.getContext("2d"), image = context.createImageData(width, rows.length);
  const dark = document.documentElement.dataset.theme === "dark";
  const [cold, hot, negative] = dark ? [[24, 33, 44], [114, 180, 255], [255, 171, 112]] : [[243, 247, 252], [11, 70, 166], [168, 74, 18]];
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

function showMap(part) {
  const { rows, columns, of } = attentionOf(part, chosen.kind, chosen.layer);
  chosen.row = Math.min(chosen.row, rows.length - 1);
  $("map").setAttribute("aria-label", say("attention"));
  $("map").replaceChildren(make("table", {},
    make("thead", {}, make("tr", {}, make("td"), ...columns.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((name, r) => make("tr", {},
      make("th", { scope: "row" }, press(name, r === chosen.row, () => { chosen.row = r; })),
      ...columns.map((_, c) => {
        const share = of[r].shares[chosen.head][c];
        return share === undefined ? make("td", { class: "hidden" }, "") : cell(share, share >= 0.005 ? String(Math.round(100 * share)) : "");
      }))))));
}

function showNumbers(part) {
  const { rows, columns, of } = attentionOf(part, chosen.kind, chosen.layer);
  const { q, keys, shares, mix } = of[chosen.row], width = translator.network.headWidth, start = chosen.head * width;
  const dots = columns.map((_, k) => keys[k] && keys[k].slice(start, start + width).reduce((sum, x, i) => sum + x * q[start + i], 0));
  const scaled = dots.map((dot) => dot && dot / Math.sqrt(width));
  const masked = scaled.map((score) => score ?? -Infinity);
  const lines = [["Q·Kᵀ", dots], [`÷ √${width}`, scaled], [chosen.kind === "decoder" ? "mask" : "mask (none)", masked]];
  const table = lines.slice(0, chosen.shown).map(([name, values]) => make("tr", {}, make("th", { scope: "row" }, name),
    ...values.map((value) => make("td", { class: value === undefined || value === -Infinity ? "hidden" : "" }, value === undefined ? "·" : number(value)))));
  if (chosen.shown > 3) table.push(make("tr", {}, make("th", { scope: "row" }, "softmax"),
    ...columns.map((_, k) => cell(shares[chosen.head][k] ?? 0, (shares[chosen.head][k] ?? 0).toFixed(2)))));
  const n = Math.min(8, width);
  const mixed = chosen.shown > 4 ? [make("p", {}, `${say("mixed", n, width)} ${[...mix.slice(start, start + n)].map(number).join("  ")}`)] : [];
  $("stepper").replaceChildren(
    make("span", {}, `${say(chosen.kind)}, ${say("head", chosen.layer + 1, chosen.head + 1)}, ${rows[chosen.row]}`),
    make("button", { click: () => { chosen.shown = (chosen.shown % 5) + 1; show(); } }, say("next")),
    make("button", { click: () => { chosen.shown = 5; show(); } }, say("all")));
  $("numbers").setAttribute("aria-label", say("steps"));
  $("numbers").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, make("td"),
    ...columns.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...table)), ...mixed);
}

function showTree(part) {
  const best = new Set();
  for (let node = part.best.node; node; node = node.from) best.add(node);
  const place = new Map(), drawn = [], wide = 118, high = 22;
  part.steps.forEach(({ candidates, kept, ended }, step) => candidates.forEach((node, rank) => {
    const [x, y] = [10 + step * wide, 24 + rank * high], from = place.get(node.from) ?? [0, 24];
    place.set(node, [x + 84, y]);
    const kind = best.has(node) ? "best" : kept.has(node) || ended.has(node) ? "in" : "out";
    if (kind !== "out") drawn.unshift(make("path", { class: kind, d: `M${from[0]},${from[1] - 4} C${from[0] + 16},${from[1] - 4} ${x - 20},${y - 4} ${x - 4},${y - 4}` }));
    drawn.push(make("g", { class: kind }, make("text", { x, y }, `${spelled(translator.tgt, node.id).slice(0, 9)} ${percent(node.probability)}`)));
  }));
  const most = Math.max(...part.steps.map(({ candidates }) => candidates.length));
  $("tree").setAttribute("aria-label", say("search"));
  $("tree").replaceChildren(make("svg", { width: 20 + part.steps.length * wide, height: 34 + most * high, role: "img", "aria-label": say("searchText") }, ...drawn));
}

function showVectors(part) {
  const { ids, embedded, states } = part.source, largest = (rows) => Math.max(...rows.map((row) => Math.max(...row.map(Math.abs))));
  const scales = [largest(embedded), largest(states)];
  const strip = (row, scale, label) => paint([row], row.length, (value) => (value / scale) * 1.5, { class: "vector", role: "img", "aria-hidden": "false", "aria-label": label });
  $("vectors").setAttribute("aria-label", say("vectors"));
  $("vectors").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, make("td"), ...["embedding", "state"].map((name) => make("th", { scope: "col" }, say(name))))),
    make("tbody", {}, ...ids.map((id, s) => make("tr", {}, make("th", { scope: "row" }, spelled(translator.src, id)),
      make("td", {}, strip(embedded[s], scales[0], say("embedding"))), make("td", {}, strip(states[s], scales[1], say("state"))))))));
}

/* ---- Begin ---- */

function speak() {
  document.documentElement.lang = chosen.language ? "zh-Hans" : "en";
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  Object.assign($("language"), { textContent: chosen.language ? "English" : "中文", lang: chosen.language ? "en" : "zh-Hans" });
  $("theme").textContent = say("theme");
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (isDark) => { document.documentElement.dataset.theme = isDark ? "dark" : "light"; };
  theme(dark.matches);
  chosen.language = navigator.language.startsWith("zh") ? 1 : 0;
  speak();
  $("status").textContent = say("loading");
  if (typeof DecompressionStream === "undefined") throw new Error(say("old"));
  translator = new Translator(JSON.parse($("model").textContent), await inflated(fromBase64($("weights").textContent)));
  $("language").onclick = () => { chosen.language = 1 - chosen.language; speak(); show(); };
  $("theme").onclick = () => { theme(document.documentElement.dataset.theme !== "dark"); show(); };
  $("input").oninput = () => { clearTimeout(waiting); waiting = setTimeout(translate, 50); };
  $("beam").onchange = translate;
  translate();
}

const fail = (error) => { $("status").textContent = `${say("failed")} ${error.message ?? error}`; };
window.addEventListener("error", (event) => fail(event.error ?? event.message));
begin().catch(fail);
