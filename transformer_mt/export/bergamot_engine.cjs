// node bergamot_engine.cjs PACKAGE EXPORT < TEXTS > TRANSLATIONS
// A model of `tmt export --to bergamot` in the engine of @browsermt/bergamot-translator, whose files
// are in PACKAGE. A line of either stream is a JSON string.
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { createInterface } = require("node:readline");
const { runInThisContext } = require("node:vm");

const [packageDir, exportDir] = process.argv.slice(2);
const worker = (name) => readFileSync(join(packageDir, "worker", `bergamot-translator-worker.${name}`));
const exported = (name) => readFileSync(join(exportDir, name));

// The engine imports its integer products, and exports slower ones that may take their place:
// int8_prepare_a is int8PrepareAFallback.
function fallbacks(imports) {
  const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
  const call = (_, name) => (...args) => Module.asm[`${camel(name)}Fallback`](...args);
  return { ...imports, wasm_gemm: new Proxy({}, { get: call }) };
}

function load() {
  return new Promise((resolve, reject) => {
    globalThis.Module = {
      print: console.error,
      printErr: console.error,
      onAbort: (reason) => reject(new Error(reason)),
      onRuntimeInitialized: () => resolve(Module),
      instantiateWasm(imports, accept) {
        const found = WebAssembly.instantiate(worker("wasm"), fallbacks(imports));
        found.then(({ instance }) => accept(instance), reject);
        return {};
      },
    };
    runInThisContext(worker("js").toString());
  });
}

function model(engine) {
  const memory = (bytes, alignment) => {
    const found = new engine.AlignedMemory(bytes.length, alignment);
    found.getByteArrayView().set(bytes);
    return found;
  };
  const { files } = JSON.parse(exported("metadata.json"));
  const vocabularies = new engine.AlignedMemoryList();
  for (const name of files.vocabularies) vocabularies.push_back(memory(exported(name), 64));
  const shortlist = memory(Buffer.alloc(0), 64);
  const config = exported(files.config).toString();
  const weights = memory(exported(files.model), 256);
  return new engine.TranslationModel(config, weights, shortlist, vocabularies, null);
}

async function main() {
  const engine = await load();
  const service = new engine.BlockingService({ cacheSize: 0 });
  const translator = model(engine);
  for await (const line of createInterface({ input: process.stdin })) {
    const texts = new engine.VectorString();
    texts.push_back(JSON.parse(line));
    const options = new engine.VectorResponseOptions();
    options.push_back({ alignment: false, html: false, qualityScores: false });
    const found = service.translate(translator, texts, options);
    console.log(JSON.stringify(found.get(0).getTranslatedText()));
    for (const one of [found, options, texts]) one.delete();
  }
}

main().catch((error) => {
  console.error(error.message ?? error);
  process.exit(1);
});
