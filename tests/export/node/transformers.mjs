// node transformers.mjs DIRECTORY < REQUEST.json: translates texts with an export, in batches.
// Out comes what a test compares: for each text the ids of its tokens, and the translation.
import { readFileSync } from "node:fs";
import { env, pipeline } from "@huggingface/transformers";

env.allowRemoteModels = false;
const directory = process.argv[2];
const { texts, batch, options } = JSON.parse(readFileSync(0, "utf8"));
env.localModelPath = "/";
const translate = await pipeline("translation", directory, options);
const begun = performance.now();
const translations = [];
for (let i = 0; i < texts.length; i += batch) {
  for (const one of await translate(texts.slice(i, i + batch))) {
    translations.push(one.translation_text);
  }
}
const seconds = (performance.now() - begun) / 1000;
const ids = texts.map((text) => translate.tokenizer.encode(text));
console.log(JSON.stringify({ ids, translations, seconds }));
