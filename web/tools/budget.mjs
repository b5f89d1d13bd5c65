// Holds the budget of the first view: everything a browser loads, as the server sends it (gzip).
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET_BYTES = 300_000;

let total = 0;
for (const entry of readdirSync("dist", { recursive: true })) {
  const path = join("dist", entry);
  if (statSync(path).isFile()) total += gzipSync(readFileSync(path), { level: 9 }).length;
}
console.log(`dist: ${(total / 1000).toFixed(1)} kB compressed, at most ${BUDGET_BYTES / 1000} kB`);
if (total > BUDGET_BYTES) {
  console.error("error: the first view is larger than its budget");
  process.exit(1);
}
