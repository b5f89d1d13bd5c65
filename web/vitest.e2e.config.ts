import { defineConfig } from "vitest/config";

/** One browser and one server at a time: the tests look at live numbers. */
export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    environment: "node",
    fileParallelism: false,
    testTimeout: 90_000,
    hookTimeout: 180_000,
  },
});
