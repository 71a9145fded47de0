"use strict";
/* The Transformer of "Attention Is All You Need" in plain JavaScript: text in, translation out.
 *
 * Words used below: B beams · S source length · T target length · D model width · H heads · V
 * vocabulary. A row is a Float32Array of D numbers, the state of one position. It runs in a browser,
 * under Node and in a bare V8, and knows no page.
 */

const PAD = 0, UNK = 1, BOS = 2, EOS = 3;

/* ---- Weights: one block of bytes, tensor after tensor ---- */

/** The bytes of base64, where a V8 without a browser has no `atob`. */
function fromBase64(text) {
  const value = new Uint8Array(128), bytes = new Uint8Array(Math.floor((text.replace(/=+$/, "").length * 3) / 4));
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((c, i) => { value[c.charCodeAt(0)] = i; });
  for (let i = 0, at = 0, bits = 0; at < bytes.length; i++) {
    bits = (bits << 6) | value[text.charCodeAt(i)];
    if (i % 4) bytes[at++] = bits >> (6 - 2 * (i % 4));
  }
  return bytes;
}

/** Name → Float32Array. `tensors`: [name, rows, columns] in the order of the bytes; columns 0: a vector. */
function readWeights(tensors, kind, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const weights = {};
  let at = 0;
  const float = (place) => view.getFloat32(place, true);
  for (const [name, rows, columns] of tensors) {
    const n = rows * (columns || 1), out = new Float32Array(n);
    if (kind === "float32" || !columns) {
      for (let i = 0; i < n; i++) out[i] = float(at + 4 * i);
      at += 4 * n;
    } else if (kind === "bfloat16") { // the upper halves of float32: first all high bytes, then all low
      const bits = new Uint32Array(out.buffer);
      for (let i = 0; i < n; i++) bits[i] = (bytes[at + i] << 24) | (bytes[at + n + i] << 16);
      at += 2 * n;
    } else { // int8: each row in blocks of 32 that share a scale
      const blocks = Math.ceil(columns / 32), numbers = at + 2 * rows * blocks;
      const scales = new Float32Array(rows * blocks), bits = new Uint32Array(scales.buffer);
      for (let i = 0; i < bits.length; i++) bits[i] = view.getUint16(at + 2 * i, true) << 16;
      for (let i = 0; i < n; i++) {
        const row = Math.floor(i / columns), block = Math.floor((i % columns) / 32);
        out[i] = view.getInt8(numbers + i) * scales[row * blocks + block];
      }
      at = numbers + n;
    }
    weights[name] = out;
  }
  return weights;
}

/* ---- Text: one normal form, then sub-words ---- */

const INVISIBLE = /[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const ENTITY = /&(?:(amp|lt|gt|quot|apos|nbsp|[mn]dash|hellip|[lr][sd]quo)|#([0-9]{2,6})|#[xX]([0-9a-fA-F]{2,5}));/g;
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\xa0", mdash: "—", ndash: "–",
  hellip: "…", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”" };
const WINDOWS_1252 = "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ"; // what &#128; … mean in HTML
const STRAIGHT = { "’": "'", "‘": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"' };

class TextRules {
  /** `cjk`: class of characters between which spaces go; `simplified`: Traditional → Simplified;
   * `script`: classes of characters of the Chinese script of all texts, and of the other; its forms. */
  constructor({ language, cjk, unspaced, simplified, script }) {
    this.unspaced = unspaced;
    this.chinese = cjk !== null;
    this.english = language === "en";
    this.cjkSpace = cjk && new RegExp(` (?<=${cjk} )(?=${cjk})`, "gu");
    this.simplified = new Map(simplified);
    this.script = script && { ...script, forms: new Map(script.forms) };
  }

  /** Text as the model has learned to read it: NFC, no invisible characters, single spaces. */
  normalise(text) {
    text = this.oneForm(text);
    for (let round = 1; round <= 17; round++) {
      const next = text.replace(ENTITY, (all, name, decimal, hex) =>
        round > 16 ? "& " + all.slice(1) : name ? NAMED[name] : character(parseInt(decimal ?? hex, hex ? 16 : 10)));
      if (next === text) break;
      text = this.oneForm(next);
    }
    return text;
  }

  oneForm(text) {
    text = text.replace(INVISIBLE, "");
    if (this.chinese) text = text.replace(/[０-９Ａ-Ｚａ-ｚ]/gu, (c) => String.fromCharCode(c.charCodeAt(0) - 0xfee0));
    else if (this.english) text = text.replace(/[’‘‛“”„‟]/gu, (c) => STRAIGHT[c]);
    text = text.normalize("NFC").split(SPACES).filter(Boolean).join(" ");
    return this.inScript(this.cjkSpace ? text.replace(this.cjkSpace, "") : text);
  }

  /** A text of the other Chinese script in that of the model, character by character. */
  inScript(text) {
    const count = (characters) => text.match(new RegExp(characters, "gu"))?.length ?? 0;
    if (!this.script || count(this.script.other) <= count(this.script.own)) return text;
    return Array.from(text, (c) => this.script.forms.get(c) ?? c).join("");
  }

  toSimplified(text) {
    return Array.from(text, (c) => this.simplified.get(c) ?? c).join("");
  }
}

/** The character of a numeric reference, as HTML has it. */
function character(code) {
  if (code >= 0x80 && code <= 0x9f) return WINDOWS_1252[code - 0x80];
  if (code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return "\ufffd";
  const invalid = (code < 0x20 && ![9, 10, 12, 13].includes(code)) || code === 0x7f ||
    (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) === 0xfffe || code === 0xb;
  return invalid ? "" : String.fromCodePoint(code);
}

class Tokenizer {
  /** A SentencePiece model. `pieces`: [spelling, score] by id; the score of a special piece is null. */
  constructor({ type, pieces, prefix, bytes }) {
    this.type = type;
    this.prefix = prefix; // whether a space goes before the text
    this.pieces = pieces.map(([spelling]) => spelling);
    this.scores = pieces.map(([, score]) => score);
    this.ids = new Map();
    this.longest = 0;
    this.least = 0;
    pieces.forEach(([spelling, score], id) => {
      if (score === null) return;
      this.ids.set(spelling, id);
      this.longest = Math.max(this.longest, Array.from(spelling).length);
      this.least = Math.min(this.least, score);
    });
    this.byteIds = bytes; // ids of <0x00> … <0xFF>; null: unknown characters become UNK
    this.byteOf = new Map(bytes?.map((id, byte) => [id, byte]));
  }

  /** Ids of a text, without BOS and EOS. */
  encode(text) {
    if (!text) return [];
    const characters = Array.from(((this.prefix ? "▁" : "") + text.replace(/ /g, "▁")).replace(/▁+$/, ""));
    const parts = this.type === "bpe" ? this.merged(characters) : this.mostProbable(characters);
    const ids = [];
    for (const part of parts) {
      const id = this.ids.get(part);
      if (id !== undefined) ids.push(id);
      else if (this.byteIds) ids.push(...utf8(part).map((byte) => this.byteIds[byte]));
      else if (ids.at(-1) !== UNK) ids.push(UNK);
    }
    return ids;
  }

  /** Unigram: the division whose scores sum to the most (Kudo 2018), in float32 as SentencePiece has it. */
  mostProbable(characters) {
    const n = characters.length, unknown = Math.fround(Math.fround(this.least) - 10);
    const best = new Float32Array(n + 1).fill(-Infinity), from = new Int32Array(n + 1);
    best[0] = 0;
    for (let start = 0; start < n; start++) {
      let spelling = "", single = false;
      for (let end = start + 1; end <= Math.min(n, start + this.longest); end++) {
        spelling += characters[end - 1];
        const id = this.ids.get(spelling);
        if (id === undefined) continue;
        single ||= end === start + 1;
        const score = Math.fround(best[start] + Math.fround(this.scores[id]));
        if (score > best[end]) [best[end], from[end]] = [score, start];
      }
      const score = Math.fround(best[start] + unknown);
      if (!single && score > best[start + 1]) [best[start + 1], from[start + 1]] = [score, start];
    }
    const parts = [];
    for (let end = n; end > 0; end = from[end]) parts.unshift(characters.slice(from[end], end).join(""));
    return parts;
  }

  /** BPE: the neighbours whose union has the best score are merged, again and again. */
  merged(characters) {
    const parts = [...characters];
    for (;;) {
      let at = -1, best = -Infinity;
      for (let i = 0; i + 1 < parts.length; i++) {
        const id = this.ids.get(parts[i] + parts[i + 1]);
        if (id !== undefined && this.scores[id] > best) [at, best] = [i, this.scores[id]];
      }
      if (at < 0) return parts;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }

  decode(ids) {
    let text = "", bytes = [];
    const flush = () => { text += fromUtf8(bytes); bytes = []; };
    for (const id of ids) {
      if (this.byteOf.has(id)) { bytes.push(this.byteOf.get(id)); continue; }
      flush();
      if (id === UNK) text += " ⁇ ";
      else if (this.scores[id] !== null) text += (text ? this.pieces[id] : this.pieces[id].replace(/^▁/, "")).replace(/▁/g, " ");
    }
    flush();
    return text;
  }
}

function utf8(text) {
  return Array.from(unescape(encodeURIComponent(text)), (c) => c.charCodeAt(0));
}

/** The text of some bytes; each byte that fits nowhere becomes U+FFFD. */
function fromUtf8(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length;) {
    const size = bytes[i] < 0x80 ? 1 : bytes[i] < 0xe0 ? 2 : bytes[i] < 0xf0 ? 3 : 4;
    try {
      text += decodeURIComponent(bytes.slice(i, i + size).map((b) => "%" + b.toString(16).padStart(2, "0")).join(""));
      i += size;
    } catch { // decodeURIComponent knows every malformed sequence
      text += "\ufffd";
      i++;
    }
  }
  return text;
}

/* ---- Arithmetic ---- */

/** Rows times a matrix (out × in) plus a bias; four rows at a time read each weight once. */
function linear(rows, matrix, bias) {
  const width = rows[0].length, n = matrix.length / width;
  const out = rows.map(() => new Float32Array(n));
  let r = 0;
  for (; r + 4 <= rows.length; r += 4) {
    const [a, b, c, d] = rows.slice(r, r + 4), [oa, ob, oc, od] = out.slice(r, r + 4);
    for (let o = 0, at = 0; o < n; o++) {
      let sa = 0, sb = 0, sc = 0, sd = 0;
      for (let i = 0; i < width; i++, at++) {
        const weight = matrix[at];
        sa += weight * a[i]; sb += weight * b[i]; sc += weight * c[i]; sd += weight * d[i];
      }
      oa[o] = sa; ob[o] = sb; oc[o] = sc; od[o] = sd;
    }
  }
  for (; r < rows.length; r++) {
    const x = rows[r], y = out[r], even = width - (width % 4);
    for (let o = 0, at = 0; o < n; o++) {
      let s = 0, t = 0, u = 0, v = 0, i = 0;
      for (; i < even; i += 4, at += 4) {
        s += matrix[at] * x[i]; t += matrix[at + 1] * x[i + 1];
        u += matrix[at + 2] * x[i + 2]; v += matrix[at + 3] * x[i + 3];
      }
      for (; i < width; i++, at++) s += matrix[at] * x[i];
      y[o] = s + t + u + v;
    }
  }
  if (bias) for (const y of out) for (let o = 0; o < n; o++) y[o] += bias[o];
  return out;
}

function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const out = scores.map((score) => Math.exp(score - most));
  const sum = out.reduce((a, b) => a + b, 0);
  return out.map((value) => value / sum);
}

function logSoftmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  let sum = 0;
  for (const score of scores) sum += Math.exp(score - most);
  const log = most + Math.log(sum);
  return scores.map((score) => score - log);
}

const sum = (x, y) => x.map((value, i) => value + y[i]);

/* ---- The model ---- */

class Transformer {
  /** `cfg`: heads, encoder_layers, decoder_layers, modern, pre; `weights`: from `readWeights`. */
  constructor(cfg, weights) {
    this.cfg = cfg;
    this.weights = weights;
    this.width = cfg.d_model;
    this.headWidth = cfg.d_model / cfg.heads;
  }

  linear(rows, name) {
    return linear(rows, this.weights[`${name}.weight`], this.weights[`${name}.bias`]);
  }

  /** Token embedding × √D, plus sines and cosines of the position (section 3.5 of the paper). */
  embed(side, id, position) {
    const table = this.weights[`${side}.embedding.weight`] ?? this.weights["output.weight"];
    const row = table.slice(id * this.width, (id + 1) * this.width).map((x) => x * Math.sqrt(this.width));
    if (this.cfg.modern) return row;
    return row.map((x, i) => {
      const angle = position / 10000 ** ((i - (i % 2)) / this.width);
      return x + (i % 2 ? Math.cos(angle) : Math.sin(angle));
    });
  }

  /** LayerNorm, or RMSNorm in the modern architecture, of each row. */
  norm(rows, name) {
    const gain = this.weights[`${name}.weight`], bias = this.weights[`${name}.bias`];
    return rows.map((x) => {
      const mean = this.cfg.modern ? 0 : x.reduce((a, b) => a + b, 0) / x.length;
      const variance = x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length;
      const scale = 1 / Math.sqrt(variance + 1e-5);
      return x.map((value, i) => (value - mean) * scale * gain[i] + (bias ? bias[i] : 0));
    });
  }

  /** A sub-layer in its frame: residual and norm, before it or after it. */
  residual(rows, norm, sublayer) {
    const out = sublayer(this.cfg.pre ? this.norm(rows, norm) : rows);
    const added = rows.map((x, i) => sum(x, out[i]));
    return this.cfg.pre ? added : this.norm(added, norm);
  }

  feedForward(rows, name) {
    if (!this.cfg.modern) {
      const inner = this.linear(rows, `${name}.fc1`).map((x) => x.map((value) => Math.max(0, value)));
      return this.linear(inner, `${name}.fc2`);
    }
    const up = this.linear(rows, `${name}.up_proj`);
    const gated = this.linear(rows, `${name}.gate_proj`).map((x, r) =>
      x.map((value, i) => (value / (1 + Math.exp(-value))) * up[r][i]));
    return this.linear(gated, `${name}.down_proj`);
  }

  /** Queries or keys turned by angles that grow with the position (rotary positions). */
  turned(row, position) {
    if (!this.cfg.modern) return row;
    const out = new Float32Array(row.length), width = this.headWidth;
    for (let i = 0; i < row.length; i += 2) {
      const angle = position / 10000 ** ((i % width) / width);
      const cos = Math.cos(angle), sin = Math.sin(angle);
      out[i] = row[i] * cos - row[i + 1] * sin;
      out[i + 1] = row[i] * sin + row[i + 1] * cos;
    }
    return out;
  }

  /** softmax(q Kᵀ / √d_k) V of one query: the rows {mix, shares (H × keys), and what they came from}. */
  attend(q, keys, values) {
    const mix = new Float32Array(this.width), width = this.headWidth, shares = [];
    for (let h = 0; h < this.cfg.heads; h++) {
      const start = h * width, end = start + width, scores = new Float32Array(keys.length);
      for (let k = 0; k < keys.length; k++) {
        let dot = 0;
        for (let i = start; i < end; i++) dot += q[i] * keys[k][i];
        scores[k] = dot / Math.sqrt(width);
      }
      const share = softmax(scores);
      for (let k = 0; k < keys.length; k++) {
        for (let i = start; i < end; i++) mix[i] += share[k] * values[k][i];
      }
      shares.push(share);
    }
    return { q, keys, values, shares, mix };
  }

  /** Read the source: ids with EOS. Keys and values for each decoder layer, and all attention. */
  encode(ids) {
    let x = ids.map((id, position) => this.embed("encoder", id, position));
    const embedded = x, attention = [];
    for (let layer = 0; layer < this.cfg.encoder_layers; layer++) {
      const name = `encoder.${layer}`;
      x = this.residual(x, `${name}.self_attn_layer_norm`, (rows) => {
        const q = this.linear(rows, `${name}.self_attn.q_proj`).map((row, i) => this.turned(row, i));
        const k = this.linear(rows, `${name}.self_attn.k_proj`).map((row, i) => this.turned(row, i));
        const v = this.linear(rows, `${name}.self_attn.v_proj`);
        attention.push(q.map((query) => this.attend(query, k, v)));
        return this.linear(attention.at(-1).map(({ mix }) => mix), `${name}.self_attn.out_proj`);
      });
      x = this.residual(x, `${name}.ffn_layer_norm`, (rows) => this.feedForward(rows, `${name}.ffn`));
    }
    if (this.cfg.pre) x = this.norm(x, "encoder.norm");
    const memory = [];
    for (let layer = 0; layer < this.cfg.decoder_layers; layer++) {
      const name = `decoder.${layer}.encoder_attn`;
      memory.push({ keys: this.linear(x, `${name}.k_proj`), values: this.linear(x, `${name}.v_proj`) });
    }
    return { ids, embedded, states: x, attention, memory };
  }

  /**
   * One position further for B prefixes: their newest tokens, and for each layer the keys and values
   * so far (`caches`, of B; [] at first). Gives for each: log-probabilities (V), its new cache, and
   * the attention of each layer.
   */
  step(source, caches, tokens) {
    const position = caches[0].length ? caches[0][0].keys.length : 0;
    const grown = tokens.map(() => []), own = tokens.map(() => []), cross = tokens.map(() => []);
    let x = tokens.map((id) => this.embed("decoder", id, position));
    for (let layer = 0; layer < this.cfg.decoder_layers; layer++) {
      const name = `decoder.${layer}`, { keys, values } = source.memory[layer];
      x = this.residual(x, `${name}.self_attn_layer_norm`, (rows) => {
        const [q, k, v] = ["q", "k", "v"].map((part) => this.linear(rows, `${name}.self_attn.${part}_proj`));
        rows.forEach((_, b) => {
          const before = caches[b][layer] ?? { keys: [], values: [] };
          grown[b].push({ keys: [...before.keys, this.turned(k[b], position)], values: [...before.values, v[b]] });
          own[b].push(this.attend(this.turned(q[b], position), grown[b][layer].keys, grown[b][layer].values));
        });
        return this.linear(own.map((layers) => layers[layer].mix), `${name}.self_attn.out_proj`);
      });
      x = this.residual(x, `${name}.encoder_attn_layer_norm`, (rows) => {
        const q = this.linear(rows, `${name}.encoder_attn.q_proj`);
        q.forEach((query, b) => cross[b].push(this.attend(query, keys, values)));
        return this.linear(cross.map((layers) => layers[layer].mix), `${name}.encoder_attn.out_proj`);
      });
      x = this.residual(x, `${name}.ffn_layer_norm`, (rows) => this.feedForward(rows, `${name}.ffn`));
    }
    if (this.cfg.pre) x = this.norm(x, "decoder.norm");
    const logits = linear(x, this.weights["output.weight"]);
    return tokens.map((_, b) => ({
      logProbs: logSoftmax(logits[b]), cache: grown[b], own: own[b], cross: cross[b], state: x[b],
    }));
  }
}

/* ---- Search ---- */

/** The indices of the n largest numbers, largest first. */
function largest(numbers, n) {
  const best = [];
  for (let i = 0; i < numbers.length; i++) {
    if (best.length === n && numbers[i] <= numbers[best.at(-1)]) continue;
    let place = best.length;
    while (place > 0 && numbers[best[place - 1]] < numbers[i]) place--;
    best.splice(place, 0, i);
    if (best.length > n) best.pop();
  }
  return best;
}

class Translator {
  /** `model`: what `tmt export --to html` writes; `bytes`: its weights. */
  constructor(model, bytes) {
    this.model = model;
    this.network = new Transformer(model.config, readWeights(model.tensors, model.kind, bytes));
    this.rules = { src: new TextRules(model.rules.src), tgt: new TextRules(model.rules.tgt) };
    this.src = new Tokenizer(model.src);
    this.tgt = new Tokenizer(model.tgt);
  }

  /** The source text as the model reads it; Traditional characters as Simplified, if it knows more of those. */
  read(text) {
    const normal = this.rules.src.normalise(text);
    const simplified = this.rules.src.toSimplified(normal);
    if (simplified === normal) return normal;
    const foreign = (of) => this.src.encode(of).filter((id) => id === UNK || this.src.byteOf.has(id)).length;
    return foreign(simplified) < foreign(normal) ? simplified : normal;
  }

  /** Parts of a text that the model takes at once: [text, ids]; sentences share a part while they fit. */
  segments(text) {
    const parts = [], limit = this.model.maxLength;
    const units = [this.read(text)];
    while (units.length) {
      const unit = units.shift(), isLong = Array.from(unit).length > limit * this.src.longest; // its sub-words would take long
      const ids = isLong ? null : this.src.encode(unit.trim());
      const joined = parts.length && !isLong ? parts.at(-1)[0] + unit : null;
      const joinedIds = joined && this.src.encode(joined.trim());
      if (ids && !ids.length) continue;
      if (joinedIds && joinedIds.length <= limit) parts[parts.length - 1] = [joined, joinedIds];
      else if (ids && (ids.length <= limit || Array.from(unit).length < 2)) parts.push([unit, ids]);
      else {
        const sentences = unit.match(/[^。！？!?；;.…，,]*[。！？!?；;.…，,]+[”’」』）)"']*\s*|[^。！？!?；;.…，,]+$/gu) ?? [unit];
        const characters = Array.from(unit), half = Math.ceil(characters.length / 2);
        units.unshift(...(sentences.length > 1 ? sentences : [characters.slice(0, half).join(""), characters.slice(half).join("")]));
      }
    }
    return parts.map(([part, ids]) => [part.trim(), ids]);
  }

  /** Hypotheses are ranked by log-probability over this penalty of their length. */
  penalty(length) {
    const { penalty, length_penalty: alpha } = this.model.decode;
    return (penalty === "gnmt" ? (5 + length) / 6 : length) ** alpha;
  }

  /**
   * Beam search; a beam of 1 is greedy. `prefix`: ids that the translation begins with. Gives the
   * best hypotheses, and every step for a picture of the search: its candidates, each with the
   * candidate before it, and whether it was kept or ended there.
   */
  search(ids, { beam, prefix = [] }) {
    const source = this.network.encode([...ids, EOS]);
    const limit = Math.ceil(this.model.decode.max_length_ratio * ids.length) + 10 + prefix.length;
    const finished = [], steps = [];
    let alive = [{ ids: [], logProb: 0, cache: [], node: null }];
    while (alive.length) {
      const length = alive[0].ids.length + 1, forced = prefix[length - 1];
      const tokens = alive.map((one) => one.ids.at(-1) ?? BOS);
      const found = this.network.step(source, alive.map((one) => one.cache), tokens);
      const candidates = found.flatMap(({ logProbs, cache }, b) => {
        const tried = forced === undefined ? this.allowed(logProbs, 2 * beam) : [forced];
        return tried.map((id) => ({
          id, cache, from: alive[b].node, ids: [...alive[b].ids, id],
          probability: Math.exp(logProbs[id]), logProb: alive[b].logProb + logProbs[id],
        }));
      });
      candidates.sort((a, b) => b.logProb - a.logProb);
      const atLimit = length >= limit;
      const ended = candidates.slice(0, beam).filter((one) => one.id === EOS || atLimit);
      for (const one of ended) {
        const complete = one.id === EOS;
        finished.push({ ids: complete ? one.ids.slice(0, -1) : one.ids, logProb: one.logProb, complete,
          score: one.logProb / this.penalty(one.ids.length), node: one });
      }
      finished.sort((a, b) => b.score - a.score);
      alive = candidates.filter((one) => one.id !== EOS).slice(0, beam);
      for (const one of alive) one.node = one;
      steps.push({ candidates: candidates.slice(0, 2 * beam), kept: new Set(alive), ended: new Set(ended) });
      const hopeless = finished.length && alive[0].logProb / this.penalty(limit) <= finished[0].score;
      if (atLimit || finished.length >= beam || hopeless) break;
    }
    return { source, hypotheses: finished.slice(0, beam), steps };
  }

  /** The n most probable next ids; special pieces are never written. */
  allowed(logProbs, n) {
    const scores = logProbs.slice();
    for (const id of this.model.silent) scores[id] = -Infinity;
    return largest(scores, n);
  }

  /** What one pass over a source and a given target shows: every step of the decoder. */
  forced(source, ids) {
    const steps = [];
    let cache = [];
    for (const token of [BOS, ...ids]) {
      const [step] = this.network.step(source, [cache], [token]);
      cache = step.cache;
      steps.push(step);
    }
    return steps;
  }

  /** ln p(target | source), end of sentence included. */
  logProb(text, target) {
    const tgt = this.tgt.encode(this.rules.tgt.normalise(target));
    const source = this.network.encode([...this.src.encode(this.read(text)), EOS]);
    const steps = this.forced(source, tgt);
    return [...tgt, EOS].reduce((total, id, t) => total + steps[t].logProbs[id], 0);
  }

  /** Greedy translation of each part, joined. */
  translate(text, beam = 1) {
    const found = this.segments(text).map(([, ids]) => this.search(ids, { beam }).hypotheses[0]);
    const texts = found.map(({ ids }) => this.rules.tgt.normalise(this.tgt.decode(ids)));
    return texts.join(this.model.joint);
  }

  /**
   * Value zeroing (Mohebbi et al. 2023): how much some source positions decide the target token that
   * follows `ids`. The pass is made again with their values set to zero in cross-attention; gives how
   * far the log-probability of `next` moves.
   */
  moved(source, ids, next, positions) {
    const hidden = new Set(positions);
    const memory = source.memory.map(({ keys, values }) => ({
      keys, values: values.map((row, s) => (hidden.has(s) ? new Float32Array(row.length) : row)),
    }));
    const [before, after] = [source, { ...source, memory }].map((one) => this.forced(one, ids).at(-1).logProbs[next]);
    return Math.abs(before - after);
  }
}

if (typeof module !== "undefined") module.exports = { Translator, fromBase64, EOS };
