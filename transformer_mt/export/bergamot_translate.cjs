// The model of this folder, an export of tmt, in the engine of @browsermt/bergamot-translator:
//   npm install @browsermt/bergamot-translator
//   node translate.cjs "A sentence." "Another one."
// Without arguments it reads a JSON list of texts from standard input, and prints one.
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { runInThisContext } = require("node:vm");

const PACKAGE = "@browsermt/bergamot-translator/worker/bergamot-translator-worker";
const engineFile = (ending) => readFileSync(require.resolve(PACKAGE + ending, { paths: [process.cwd()] }));
const exported = (name) => readFileSync(join(__dirname, name));

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
        const found = WebAssembly.instantiate(engineFile(".wasm"), fallbacks(imports));
        found.then(({ instance }) => accept(instance), reject);
        return {};
      },
    };
    runInThisContext(engineFile(".js").toString());
  });
}

function model(engine) {
  const memory = (bytes, alignment) => {
    const found = new engine.AlignedMemory(bytes.length, alignment);
    found.getByteArrayView().set(bytes);
    return found;
  };
  const weights = memory(exported("model.bin"), 256);
  const noShortlist = memory(Buffer.alloc(0), 64);
  const vocabularies = new engine.AlignedMemoryList();
  for (const name of ["srcvocab.spm", "trgvocab.spm"]) vocabularies.push_back(memory(exported(name), 64));
  const config = exported("config.yml").toString();
  return new engine.TranslationModel(config, weights, noShortlist, vocabularies, null);
}

async function main() {
  const given = process.argv.slice(2);
  const engine = await load();
  const service = new engine.BlockingService({ cacheSize: 0 });
  const texts = new engine.VectorString();
  const options = new engine.VectorResponseOptions();
  for (const text of given.length ? given : JSON.parse(readFileSync(0))) {
    texts.push_back(text);
    options.push_back({ alignment: false, html: false, qualityScores: false });
  }
  const responses = service.translate(model(engine), texts, options);
  const found = [];
  for (let i = 0; i < responses.size(); i++) found.push(responses.get(i).getTranslatedText());
  console.log(given.length ? found.join("\n") : JSON.stringify(found));
}

main().catch((error) => {
  console.error(error.message ?? error);
  process.exit(1);
});
