// Unpacks the Chromium that npm's @sparticuz/chromium carries, and the libraries it links to, into
// node_modules/.chromium. The package does so for its own place alone, a Lambda function's /tmp.
import { mkdirSync } from "node:fs";

const folder = new URL("node_modules/.chromium", import.meta.url).pathname;
mkdirSync(folder, { recursive: true });
process.env.TMPDIR = folder;
process.env.AWS_EXECUTION_ENV = "AWS_Lambda_nodejs22.x";
const { default: chromium } = await import("@sparticuz/chromium");
await chromium.executablePath();
