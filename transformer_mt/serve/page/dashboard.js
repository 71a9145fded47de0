"use strict";
/* Runs, one run, or several over each other. The address says which: `#one` or `#one&other`.
 * The server tells of new records; whatever is told is drawn again. */

Object.assign(WORDS, {
  runs: ["Runs", "训练"],
  none: ["There is no run here yet. As soon as a training begins, this page shows it: tmt train tiny", "这里还没有训练。训练一开始就会出现在这里：tmt train tiny"],
  compare: ["Compare", "比较"],
  chooseTwo: ["Tick two runs or more; the first is the baseline.", "勾选两个或更多训练，第一个作基线。"],
  choose: ["compare {}", "比较 {}"],
  run: ["run", "训练"], pair: ["pair", "语言"], state: ["state", "状态"], dev: ["best on dev", "开发集最好成绩"], devShort: ["dev", "开发集"],
  test: ["test", "测试集"], minutes: ["minutes", "分钟"], last: ["last record", "最近记录"], left: ["{} min left", "还剩 {} 分钟"],
  finished: ["finished, {} updates", "已完成，{} 步"], going: ["{} of {} updates", "{} / {} 步"],
  report: ["the data of {}", "{} 的数据"],
  overview: ["Overview", "概览"], difference: ["difference", "差异"], notCompared: ["Comparing …", "正在比较……"],
  updates: ["updates", "更新步数"], axis: ["Horizontal axis:", "横轴："],
  loss: ["loss per target token (nats)", "每个目标 token 的损失（nats）"], score: ["score on dev", "开发集分数"],
  devLoss: ["loss on dev (nats)", "开发集损失（nats）"], trainLoss: ["loss in training (nats)", "训练损失（nats）"],
  bleu: ["BLEU on dev", "开发集 BLEU"], chrf: ["chrF on dev", "开发集 chrF"],
  lr: ["learning rate", "学习率"], speed: ["target tokens per second", "每秒目标 token 数"], train: ["train", "训练"],
  at: ["{} at {}", "{}（{}）"],
  samples: ["The same sentences of dev at each validation", "每次验证时的同几句开发集译文"],
  source: ["source", "原文"], reference: ["reference", "参考译文"], update: ["update", "更新步数"], allSamples: ["all validations", "全部验证"],
  settings: ["All settings", "全部设置"], setting: ["setting", "设置"], differences: ["Settings that differ", "不同的设置"], same: ["The settings are the same.", "设置相同。"],
  live: ["live", "实时"], lost: ["no connection; trying again", "连接中断，正在重试"],
});

const MOST_RUNS = 12, SHOWN_SAMPLES = 10, HEIGHT = 200, LEFT = 52, BOTTOM = 18, TOP = 6;
let names = [], states = null, records = {}, details = {}, source, pointers = [], waiting, width = innerWidth;
Object.assign(chosen, { ticked: new Set(), x: "update", all: false, at: null });

/* ---- Numbers ---- */

const fixed = (value, digits) => (typeof value === "number" ? value.toFixed(digits) : "–");
const whole = (value) => (value ?? 0).toLocaleString("en");
const short = (value) => (value && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toLocaleString("en", { maximumSignificantDigits: 4 }));
const time = (seconds) => new Date(1000 * seconds).toLocaleString(chosen.language ? "zh-CN" : "en-GB");
const scores = (found) => [["BLEU", found.bleu], ["chrF", found.chrf]].filter(([, value]) => value !== undefined).map(([name, value]) => `${name}\u00a0${fixed(value, 2)}`).join(" · ");
const stateOf = (one) => (one.max_updates === null ? one.state : one.finished ? say("finished", whole(one.update)) : say("going", whole(one.update), whole(one.max_updates)));
const linkTo = (...runs) => `#${runs.map(encodeURIComponent).join("&")}`;

/* ---- Tables ---- */

const cells = (tag, values) => make("tr", {}, ...values.map((value) => (/^T[DH]$/.test(value?.tagName) ? value : make(tag, tag === "th" ? { scope: "col" } : {}, value))));
const rowHead = (...children) => make("th", { scope: "row" }, ...children);
const table = (head, rows) => [make("thead", {}, cells("th", head)), make("tbody", {}, ...rows.map((row) => cells("td", row)))];
const KINDS = { pair: "wide time", test: "wide", minutes: "wide number", last: "wide time" }; // of columns
const column = (name) => make("th", { scope: "col", class: KINDS[name] ?? "" }, say(name));
const within = (name, text) => make("td", { class: KINDS[name] ?? "" }, text);

/** Fill a part of the page, unless it is as it was: text that is selected in it stays so. */
function fill(id, ...children) {
  const filled = $(id).cloneNode();
  filled.append(...children);
  if (!filled.isEqualNode($(id))) $(id).replaceChildren(...filled.childNodes);
}

function showList() {
  const rows = states.map((one) => {
    const tick = make("input", { type: "checkbox", "data-key": `tick ${one.run}`, "aria-label": say("choose", one.run), change: (event) => { chosen.ticked[event.target.checked ? "add" : "delete"](one.run); show(); } });
    tick.checked = chosen.ticked.has(one.run);
    const tests = Object.entries(one.tests).map(([test, found]) => make("div", {}, `${test}: ${scores(found)}`));
    return [make("td", {}, make("label", {}, tick)), rowHead(make("a", { href: linkTo(one.run), "data-key": one.run }, one.run)),
      within("pair", one.languages), make("td", one.max_updates === null ? { class: "bad" } : {}, stateOf(one)), scores(one.dev),
      make("td", { class: "wide" }, ...tests), within("minutes", fixed(one.minutes, 1)), within("last", time(one.modified))];
  });
  const head = [make("td"), ...["run", "pair", "state", "dev", "test", "minutes", "last"].map(column)];
  $("table").replaceChildren(...(rows.length ? table(head, rows) : []));
  $("none").hidden = rows.length > 0;
  $("choose").hidden = rows.length < 2;
  $("compare").disabled = ticked().length < 2 || ticked().length > MOST_RUNS;
}

const ticked = () => [...chosen.ticked].filter((name) => states?.some((one) => one.run === name));

function showFacts() {
  const found = names.map((name) => states.find((one) => one.run === name)).filter(Boolean);
  const rows = found.map((one) => {
    const eta = one.finished ? undefined : (records[one.run] ?? []).findLast((record) => record.event === "train")?.eta_minutes;
    return [rowHead(names.length > 1 ? make("a", { href: linkTo(one.run), "data-key": one.run }, one.run) : one.run), within("pair", one.languages), stateOf(one) + (typeof eta === "number" ? `, ${say("left", fixed(eta, 1))}` : ""),
      `${scores(one.dev)}${one.dev.loss === undefined ? "" : ` · ${say("devLoss")} ${fixed(one.dev.loss, 3)}`}`, within("minutes", fixed(one.minutes, 1)), within("last", time(one.modified))];
  });
  const reports = found.filter((one) => one.report).flatMap((one) => [make("a", {
    href: `api/runs/${encodeURIComponent(one.run)}/report`, target: "_blank", rel: "noopener", "data-key": `data ${one.run}` }, say("report", one.run)), " "]);
  fill("facts", make("table", {}, ...table(["run", "pair", "state", "dev", "minutes", "last"].map(column), rows)),
    testTable(found), ...(details.notes ?? []).map((note) => make("p", {}, note)), make("p", {}, ...reports));
}

/** Test scores of one run as they are listed; of several, compared on the same sentences. */
function testTable(found) {
  if (names.length > 1 && !details.scores) return make("p", { class: "muted" }, details.error ?? say("notCompared"));
  const rows = names.length > 1
    ? Object.entries(details.scores).flatMap(([test, systems]) => Object.entries(systems).map(([run, own]) => [rowHead(test), run, ...["bleu", "chrf"].flatMap((metric) => compared(own[metric]))]))
    : found.flatMap((one) => Object.entries(one.tests).map(([test, own]) => [rowHead(test), fixed(own.bleu, 2), fixed(own.chrf, 2)]));
  const head = names.length > 1 ? [say("test"), say("run"), "BLEU", say("difference"), "chrF", say("difference")] : [say("test"), "BLEU", "chrF"];
  return rows.length ? make("table", {}, ...table(head, rows)) : "";
}

function compared(score) {
  if (!score) return ["–", ""];
  const interval = score.low === undefined ? "" : ` (${fixed(score.low, 1)}–${fixed(score.high, 1)})`;
  const p = score.p_value === undefined ? "" : `, p ${score.p_value < 0.001 ? "< 0.001" : `= ${fixed(score.p_value, 3)}`}`;
  return [fixed(score.score, 2) + interval, score.difference === undefined ? "" : `${score.difference >= 0 ? "+" : "−"}${fixed(Math.abs(score.difference), 2)}${p}`];
}

function showSettings() {
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  $("all").hidden = !details.settings || names.length > 1;
  $("differences").hidden = !details.runs;
  if (details.runs) {
    const rows = Object.entries(details.settings).map(([key, values]) => [rowHead(key), ...values.map(text)]);
    fill("settingsOf", rows.length ? make("table", {}, ...table([say("setting"), ...details.runs], rows)) : say("same"));
  } else if (details.settings) {
    fill("settings", make("table", {}, make("tbody", {}, ...Object.entries(details.settings).map(([key, value]) => cells("td", [rowHead(key), text(value)])))));
  }
}

function showSamples() {
  const found = (records[names[0]] ?? []).filter((record) => record.event === "validation" && record.samples?.length).reverse();
  $("texts").hidden = names.length !== 1 || !found.length;
  if ($("texts").hidden) return;
  const of = (record, key) => record.samples.map((sample) => make("td", { dir: "auto" }, String(sample?.[key] ?? "")));
  const shown = chosen.all ? found : found.slice(0, SHOWN_SAMPLES);
  const rows = [[rowHead(say("reference")), ...of(found[0], "ref")], ...shown.map((record) => [rowHead(whole(record.update)), ...of(record, "hyp")])];
  const more = press(say("allSamples"), chosen.all, () => { chosen.all = !chosen.all; }, { "data-key": "samples" });
  fill("samples", make("table", {}, ...table([say("source"), ...of(found[0], "src")], rows)), ...(found.length > SHOWN_SAMPLES ? [more] : []));
}

/* ---- Curves ---- */

/** [x, y] of the records of an event; a resumed run repeats updates: the last counts. */
function points(run, event, key) {
  const found = new Map();
  for (const record of records[run] ?? []) {
    if (record.event === event && typeof record[key] === "number" && typeof record[chosen.x] === "number") found.set(record.update, [record[chosen.x], record[key]]);
  }
  return [...found.values()].sort(([a], [b]) => a - b);
}

/** The charts: [label, curves, whether the vertical axis begins at 0]. */
function charts() {
  const curve = (name, run, event, key, color, best) => ({ name, points: points(run, event, key), color, best });
  if (names.length > 1) {
    const each = (event, key, best) => names.map((run, i) => curve(run, run, event, key, i, best));
    return [["devLoss", each("validation", "loss", Math.min)], ["bleu", each("validation", "bleu", Math.max), true], ["chrf", each("validation", "chrf", Math.max), true],
      ["trainLoss", each("train", "loss")], ["lr", each("train", "lr"), true], ["speed", each("train", "tgt_tokens_per_s"), true]];
  }
  const [run] = names, keys = new Set((records[run] ?? []).filter((record) => record.event === "validation").flatMap(Object.keys));
  const metrics = ["bleu", "chrf", ...[...keys].filter((key) => /^(bleu|chrf)\./.test(key))];
  const label = (key) => key.replace("bleu", "BLEU").replace("chrf", "chrF").replace(".", " ");
  return [["loss", [curve(say("train"), run, "train", "loss", 6), curve(say("devShort"), run, "validation", "loss", 0, Math.min)]],
    ["score", metrics.map((key, i) => curve(label(key), run, "validation", key, i + 1, Math.max)), true],
    ["lr", [curve(say("lr"), run, "train", "lr", 2)], true], ["speed", [curve(say("speed"), run, "train", "tgt_tokens_per_s", 3)], true]];
}

function ticks(low, high) {
  const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999), found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step + 0); // + 0: never −0
  return found;
}

const look = ({ color }) => `c${color % 7}${color < 7 ? "" : " dashed"}`; // of seven colours, twice

/** Fill a figure that has its place in the page, and so its width. */
function draw(figure, title, curves, fromZero) {
  const all = curves.flatMap((curve) => curve.points), ys = all.map(([, y]) => y);
  const width = Math.max(200, figure.clientWidth), right = width - 8, floor = HEIGHT - BOTTOM;
  const most = all.reduce((m, [x]) => Math.max(m, x), 0) || 1, low = fromZero || !ys.length ? 0 : ys.reduce((a, b) => Math.min(a, b)), top = ys.length ? ys.reduce((a, b) => Math.max(a, b)) : 1;
  const high = top - low > 1e-9 * Math.abs(top) ? top : low + 1, x = (value) => LEFT + (value / most) * (right - LEFT), y = (value) => floor - ((value - low) / (high - low)) * (floor - TOP);
  const line = (found) => found.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)},${y(b).toFixed(1)}`).join("");
  const dots = (found) => (found.length > 60 ? "" : found.map(([a, b]) => `M${(x(a) - 1.5).toFixed(1)},${y(b).toFixed(1)}a1.5,1.5 0 1,0 3,0a1.5,1.5 0 1,0 -3,0`).join(""));
  const grid = [...ticks(low, high).flatMap((value) => [make("path", { d: `M${LEFT},${y(value)}H${right}` }), make("text", { x: LEFT - 6, y: y(value) + 4, class: "right" }, short(value))]),
    ...ticks(0, most).filter((value) => value <= most).map((value) => make("text", { x: x(value), y: HEIGHT - 3, class: x(value) > right - 15 ? "right" : "middle" }, short(value)))];
  const pointer = make("path", { class: "pointer" }), keys = curves.map((curve) => make("span", { class: look(curve) }));
  const bests = curves.map((curve) => curve.points.reduce((a, b) => (curve.best && curve.best(a[1], b[1]) === a[1] ? a : b), curve.points[0]));
  const at = (value) => {
    curves.forEach((curve, i) => {
      const near = value === null ? bests[i] : curve.points.reduce((a, b) => (Math.abs(b[0] - value) < Math.abs(a[0] - value) ? b : a), curve.points[0]);
      keys[i].textContent = `${curve.name} ${near ? say("at", short(near[1]), chosen.x === "update" ? whole(near[0]) : short(near[0])) : "–"}`;
    });
    picture.setAttribute("aria-label", `${title}: ${keys.map((key) => key.textContent).join("; ")}`);
    pointer.setAttribute("d", value === null ? "" : `M${x(value)},${TOP}V${floor}`);
  };
  const xs = [...new Set(all.map(([a]) => a))].sort((a, b) => a - b);
  const nearest = (value) => (xs.length ? xs.reduce((a, b) => (Math.abs(b - value) < Math.abs(a - value) ? b : a)) : null);
  const step = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") point(null);
    if (!by || !xs.length) return;
    event.preventDefault();
    point(xs[Math.min(xs.length - 1, Math.max(0, (chosen.at === null ? xs.length : xs.indexOf(nearest(chosen.at))) + by))]);
  };
  const picture = make("svg", { width, height: HEIGHT, role: "img", tabindex: 0, "data-key": title, keydown: step, pointerleave: () => point(null),
    pointermove: (event) => point(nearest(((event.offsetX - LEFT) / (right - LEFT)) * most)) },
    ...grid, ...curves.map((curve) => make("path", { class: `curve ${look(curve)}`, d: line(curve.points) + dots(curve.points) })), pointer);
  at(chosen.at);
  figure.replaceChildren(make("figcaption", {}, title, make("div", { class: "legend" }, ...keys)), picture);
  return at;
}

/** Show the values at one place of all charts; null: the best, or the last. */
function point(value) {
  chosen.at = value;
  for (const at of pointers) at(value);
}

function showCharts() {
  const wanted = charts(), figures = wanted.map(() => make("figure", { class: "chart" }));
  $("axis").replaceChildren(make("span", {}, say("axis")), ...[["update", "updates"], ["minutes", "minutes"]].map(([x, label]) =>
    press(say(label), chosen.x === x, () => { chosen.x = x; chosen.at = null; }, { "data-key": x })));
  $("charts").style.minHeight = `${$("charts").offsetHeight}px`; // or the page, short for a moment, scrolls up
  $("charts").replaceChildren(...figures);
  pointers = wanted.map(([title, curves, fromZero], i) => draw(figures[i], say(title), curves, fromZero));
  $("charts").style.minHeight = "";
}

/* ---- Show, and listen ---- */

function show() {
  if (!states) return;
  const focused = document.activeElement?.dataset.key;
  $("list").hidden = names.length > 0;
  $("shown").hidden = !names.length;
  $("name").textContent = names.length ? `· ${names.join(" – ")}` : "";
  document.title = ["tmt", ...names].join(" · ");
  if (names.length) for (const part of [showFacts, showCharts, showSettings, showSamples]) part();
  else showList();
  if (focused) [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
}

const showProblem = (text = "") => Object.assign($("problem"), { textContent: text, hidden: !text });
const query = () => names.map((name) => `run=${encodeURIComponent(name)}`).join("&");
const tell = (name) => { $("status").dataset.say = name; $("status").textContent = say(name); };

/** Follow the runs that the address names; the stream begins with all that is known. */
function listen() {
  source?.close();
  if (document.hidden) return;
  const stream = source = new EventSource(`api/events?${query()}`);
  stream.onopen = () => { tell("live"); if (names.length && !details.settings) ask().catch(fail); };
  stream.onerror = () => { tell("lost"); if (stream.readyState === EventSource.CLOSED) setTimeout(() => stream === source && listen(), 3000); };
  stream.addEventListener("runs", (event) => {
    const shown = () => states?.filter(({ run }) => !names.length || names.includes(run)), known = shown();
    const finished = (runs) => runs.filter((one) => one.finished).length;
    states = JSON.parse(event.data);
    if (JSON.stringify(known) !== JSON.stringify(shown())) show();
    if (names.length && known && finished(known) !== finished(shown())) ask().catch(fail); // its tests are scored, too
  });
  stream.addEventListener("metrics", (event) => {
    const told = JSON.parse(event.data);
    records[told.run] = told.fresh ? told.records : [...(records[told.run] ?? []), ...told.records];
    show();
  });
}

async function open() {
  try {
    names = [...new Set(location.hash.slice(1).split("&").filter(Boolean).map(decodeURIComponent))];
  } catch {
    names = [];
  }
  [records, details] = [{}, {}];
  Object.assign(chosen, { at: null, all: false });
  showProblem();
  show();
  listen();
  if (names.length) await ask();
}

async function ask() {
  const asked = names;
  const found = await (await fetch(names.length > 1 ? `api/compare?${query()}` : `api/runs/${encodeURIComponent(names[0])}`)).json();
  if (asked !== names) return;
  details = found;
  showProblem(found.error);
  show();
}

const follow = () => open().catch(fail);
beginInterface();
$("compare").onclick = () => { location.hash = linkTo(...ticked()); };
window.addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", listen);
window.addEventListener("resize", () => { // of the width: the height changes while a phone scrolls
  if (width !== innerWidth) { width = innerWidth; clearTimeout(waiting); waiting = setTimeout(show, 100); }
});
follow();
