import { defineConfig } from "vitest/config";

/** `npm run screenshots`: not a test, but it needs the same server and browser as the tests. */
export default defineConfig({
  test: { include: ["e2e/screenshots.ts"], environment: "node", testTimeout: 180_000, hookTimeout: 180_000 },
});
