import { defineConfig } from "vitest/config";

/** The server that `npm run dev` stands beside. It only talks to pages of its own host and origin. */
const SERVER = process.env["ORTSCOPE_SERVER"] ?? "http://127.0.0.1:9464";

export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    // The page's policy allows no inline script and no data: address; everything is a file of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/metrics", "/timeline", "/ws", "/login"].map((path) => [
        path,
        { target: SERVER, ws: true, changeOrigin: true, headers: { Origin: SERVER } },
      ]),
    ),
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
