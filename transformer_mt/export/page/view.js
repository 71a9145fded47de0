/* The page around the engine: what is typed is translated, and every number behind it can be seen.
 * It goes on from `parts.js`, which other pages have, too. */

Object.assign(WORDS, { // English, Chinese
  input: ["Type a sentence", "输入句子"],
  beam: ["Beam", "束宽"],
  loading: ["Reading the model …", "正在读取模型……"],
  old: ["This browser cannot unpack the model. Chrome 103, Firefox 113 and Safari 16.4 or newer can.",
    "这个浏览器无法解压模型，请用 Chrome 103、Firefox 113、Safari 16.4 或更新的版本。"],
  took: ["{} ms, {} sub-words", "用时 {} 毫秒，{} 个子词"],
  cut: ["the translation was cut at the length limit", "译文达到长度上限，被截断"],
  part: ["Part {}", "第 {} 段"],
  instead: ["Most probable here; choose one to go on from it:", "此处概率最高的子词；点一个，就从它继续："],
  end: ["end of sentence", "句末"],
  attentionText: ["Each row is one position, and sums to 1: how much of every column's value it takes. Choose a row for the numbers below.",
    "每一行是一个位置，和为 1：它从各列的值里各取多少。点一行，下面显示它的计算过程。"],
  steps: ["Step by step", "一步一步算"],
  stepsText: ["One head, one row: the query times every key, divided by √d_k, masked, softmax, and the values mixed by these shares.",
    "一个头、一行：查询乘以每个键，除以 √d_k，掩码，softmax，再按所得份额混合各个值。"],
  mask: ["mask", "掩码"], noMask: ["mask (none)", "掩码（无）"],
  next: ["Next step", "下一步"],
  all: ["All steps", "全部显示"],
  mixed: ["· V: the mix, its first {} of {} numbers:", "· V：混合结果，{1} 个数中的前 {0} 个："],
  search: ["The search", "搜索过程"],
  searchText: ["At each step the most probable continuations; those in grey left the beam. The percentage is the probability of the sub-word at its place.",
    "每一步概率最高的续写；灰色的已离开束。百分比是该子词在此处的概率。"],
  vectors: ["Sub-words and their vectors", "子词与向量"],
  vectorsText: ["How the model spells the sentence, each sub-word's embedding with its position, and the encoder's last state.",
    "模型怎样切分句子；每个子词的词嵌入（加上位置），以及编码器最后一层的状态。"],
  embedding: ["embedding", "词嵌入"],
  state: ["last state", "最后状态"],
});

Object.assign(chosen, { word: 0, part: 0, shown: 5 });
let translator, parts = [], missing = "loading"; // why there is no translator

const number = (value) => (value === -Infinity ? "−∞" : value.toFixed(2).replace("-", "−"));

/** Sub-words as words: [text, positions]. */
function words(tokenizer, ids, unspaced) {
  const groups = wordPlaces(ids.map((id) => tokenizer.pieces[id]), (i) => tokenizer.byteOf.has(ids[i]), unspaced);
  return groups.map((places) => [tokenizer.decode(places.map((i) => ids[i])).trim() || "␣", places]);
}

const spelled = (tokenizer, id) => (id === EOS ? "⏎" : tokenizer.pieces[id]);

/* ---- Translate ---- */

function translatePart(text, ids, prefix = []) {
  const found = translator.search(ids, { beam: Number($("beam").value), prefix });
  const best = found.hypotheses[0];
  const { src, tgt } = translator.rules;
  return { ...found, best, text, src: ids, moved: {}, forced: translator.forced(found.source, best.ids),
    srcWords: words(translator.src, ids, src.unspaced), tgtWords: words(translator.tgt, best.ids, tgt.unspaced) };
}

let waiting, asking, took; // asking: of the word that was chosen last; took: milliseconds; null: it goes on
function translate() {
  clearTimeout(waiting);
  clearTimeout(asking);
  $("inside").inert = true; // until its buttons belong to this text
  const started = performance.now(), segments = translator.segments($("input").value);
  [parts, took] = [[], null];
  Object.assign(chosen, { part: 0, word: 0, row: 0 });
  const next = () => {
    if (parts.length < segments.length) {
      parts.push(translatePart(...segments[parts.length]));
      showTranslation();
      waiting = setTimeout(next, 0); // what is typed meanwhile stops the rest
      return;
    }
    took = Math.round(performance.now() - started);
    show();
  };
  next();
}

/** Go on from other sub-words than the search has chosen. */
function force(part, prefix) {
  parts[part] = translatePart(parts[part].text, parts[part].src, prefix);
  chosen.word = Math.max(0, parts[part].tgtWords.findIndex(([, places]) => places.includes(prefix.length - 1)));
  redraw();
}

/* ---- Show ---- */

function show() {
  if (!translator) {
    if (missing) $("status").textContent = say(missing);
    return;
  }
  showTranslation();
  const spoken = parts.flatMap(({ tgtWords }) => tgtWords.map(([text]) => text)).join(translator.rules.tgt.unspaced ? "" : " ");
  if (took !== null && $("spoken").textContent !== spoken) $("spoken").textContent = spoken; // read aloud once
  const n = parts.reduce((sum, part) => sum + part.src.length + part.best.ids.length, 0);
  const cut = parts.some((part) => !part.best.complete);
  $("status").textContent = parts.length && took !== null ? say("took", took, n) + (cut ? ` · ${say("cut")}` : "") : "";
  $("inside").hidden = !parts.length;
  if (!parts.length) return;
  $("inside").inert = took === null;
  const part = parts[chosen.part], { encoder_layers, decoder_layers, heads } = translator.model.config;
  $("parts").replaceChildren(...(parts.length < 2 ? [] : parts.map((one, i) =>
    press(`${say("part", i + 1)}: ${one.text.slice(0, 12)}`, i === chosen.part, () => Object.assign(chosen, { part: i, word: 0, row: 0 })))));
  showWhy(part);
  showAttention(chosen.kind === "encoder" ? encoder_layers : decoder_layers, heads, (layer) => attentionOf(part, chosen.kind, layer));
  showNumbers(part);
  showTree(part);
  showVectors(part);
}

function showTranslation() {
  $("translation").replaceChildren(...parts.flatMap((part, p) => part.tgtWords.map(([text, places], w) =>
    press(text, p === chosen.part && w === chosen.word, () => Object.assign(chosen, { part: p, word: w, row: places[0] })))));
}

function showWhy(part) {
  const [, [first]] = part.tgtWords[chosen.word] ?? ["", [0]], written = [...part.best.ids, EOS];
  const { cross, logProbs } = part.forced[first];
  const groups = [...part.srcWords, ["⏎", [part.src.length]]];
  const attention = mean(cross.flatMap((layer) => layer.shares)), moved = part.moved[first] ?? [];
  const raw = groups.map(([, of]) => of.reduce((sum, s) => sum + attention[s], 0));
  const bars = () => {
    const total = moved.reduce((a, b) => a + b, 0) || 1;
    return decidingBars(groups.map(([name]) => name), moved.length === groups.length ? moved.map((far) => far / total) : null, raw);
  };
  const others = translator.allowed(logProbs, 8).map((id) => make("button",
    { click: () => force(chosen.part, [...part.best.ids.slice(0, first), id]), ...(id === EOS && { disabled: "" }) },
    `${id === EOS ? say("end") : spelled(translator.tgt, id)} ${percent(Math.exp(logProbs[id]))}`));
  $("why").replaceChildren(
    bars(), make("h3", {}, say("instead")), make("div", { class: "row" }, ...others));
  clearTimeout(asking);
  const goOn = () => { // as many source words as a frame has time for, then the page may answer
    const until = performance.now() + 30;
    part.moved[first] = moved;
    while (moved.length < groups.length && performance.now() < until) {
      moved.push(translator.moved(part.source, part.best.ids.slice(0, first), written[first], groups[moved.length][1]));
    }
    if (moved.length < groups.length) asking = setTimeout(goOn, 0);
    else $("why").firstElementChild.replaceWith(bars()); // what has the focus stays
  };
  if (moved.length < groups.length) asking = setTimeout(goOn, 0);
}

/** Names of rows and columns, and the attention of each row, of a layer of one kind. */
function attentionOf(part, kind, layer) {
  const src = [...part.src, EOS].map((id) => spelled(translator.src, id));
  const read = ["<s>", ...part.best.ids.map((id) => spelled(translator.tgt, id))];
  if (kind === "encoder") return { rows: src, columns: src, of: part.source.attention[layer] };
  const of = part.forced.map((step) => (kind === "cross" ? step.cross : step.own)[layer]);
  return kind === "cross" ? { rows: [...read.slice(1), "⏎"], columns: src, of } : { rows: read, columns: read, of };
}

function showNumbers(part) {
  const { rows, columns, of } = attentionOf(part, chosen.kind, chosen.layer);
  const { q, keys, shares, mix } = of[chosen.row], width = translator.network.headWidth, start = chosen.head * width;
  const dots = columns.map((_, k) => keys[k] && keys[k].slice(start, start + width).reduce((sum, x, i) => sum + x * q[start + i], 0));
  const scaled = dots.map((dot) => dot && dot / Math.sqrt(width));
  const masked = scaled.map((score) => score ?? -Infinity);
  const lines = [["Q·Kᵀ", dots], [`÷ √${width}`, scaled], [say(chosen.kind === "decoder" ? "mask" : "noMask"), masked]];
  const table = lines.slice(0, chosen.shown).map(([name, values]) => make("tr", {}, make("th", { scope: "row" }, name),
    ...values.map((value) => make("td", { class: value === undefined || value === -Infinity ? "hidden" : "" }, value === undefined ? "·" : number(value)))));
  if (chosen.shown > 3) table.push(make("tr", {}, make("th", { scope: "row" }, "softmax"),
    ...columns.map((_, k) => cell(shares[chosen.head][k] ?? 0, (shares[chosen.head][k] ?? 0).toFixed(2)))));
  const n = Math.min(8, width);
  const mixed = chosen.shown > 4 ? [make("p", {}, `${say("mixed", n, width)} ${[...mix.slice(start, start + n)].map(number).join("  ")}`)] : [];
  $("stepper").replaceChildren(
    make("span", {}, `${say(chosen.kind)}, ${say("head", chosen.layer + 1, chosen.head + 1)}, ${rows[chosen.row]}`),
    make("button", { click: () => { chosen.shown = (chosen.shown % 5) + 1; redraw(); } }, say("next")),
    make("button", { click: () => { chosen.shown = 5; redraw(); } }, say("all")));
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

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function begin() {
  beginInterface();
  if (typeof DecompressionStream === "undefined") missing = "old";
  show();
  if (missing === "old") return;
  translator = new Translator(JSON.parse($("model").textContent), await inflated(fromBase64($("weights").textContent)));
  $("input").oninput = () => { clearTimeout(waiting); waiting = setTimeout(translate, 50); };
  $("beam").onchange = translate;
  translate();
  Object.assign(chosen, translator.model.opens); // what is drawn once all is translated
}

begin().catch((error) => { missing = ""; fail(error); });
