import { defineConfig } from "vitest/config";

/** `npm run perf`: figures, not a test, but it needs the same server and browser as the tests. */
export default defineConfig({
  test: {
    include: ["e2e/perf.ts"],
    environment: "node",
    fileParallelism: false,
    testTimeout: 3_600_000,
    hookTimeout: 600_000,
  },
});
