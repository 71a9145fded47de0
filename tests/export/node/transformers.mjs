// node transformers.mjs DIRECTORY < REQUEST.json
// Translates texts, `batch` at a time; prints the ids of their tokens, and the translations.
import { readFileSync } from "node:fs";
import { env, pipeline } from "@huggingface/transformers";

env.allowRemoteModels = false;
const { texts, batch } = JSON.parse(readFileSync(0, "utf8"));
const translate = await pipeline("translation", process.argv[2]);
const translations = [];
for (let i = 0; i < texts.length; i += batch) {
  for (const one of await translate(texts.slice(i, i + batch))) {
    translations.push(one.translation_text);
  }
}
const ids = texts.map((text) => translate.tokenizer.encode(text));
console.log(JSON.stringify({ ids, translations }));
