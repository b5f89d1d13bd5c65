/**
 * Colours of operator types: the same type has the same colour in every run and on every machine, and neighbours in
 * the list can be told apart with the common kinds of colour blindness (they differ in lightness as well as in hue).
 */

/** After Okabe and Ito, and darker or lighter companions of them. */
export const COLOURS: readonly string[] = [
  "#3b8fd6", // blue
  "#e69f00", // orange
  "#1fa37f", // green
  "#c9669b", // purple
  "#d5603a", // vermilion
  "#7cc4ee", // sky
  "#8a7be0", // violet
  "#d8c63a", // yellow
  "#5f7f95", // slate
  "#9fd3b6", // mint
  "#a8624a", // brown
  "#e8a7c8", // rose
];

/** The types that most models spend their time in must not share a colour by accident. */
const FIXED: Readonly<Record<string, number>> = {
  conv: 0,
  fusedconv: 0,
  qlinearconv: 0,
  convinteger: 0,
  nhwcfusedconv: 0,
  matmul: 1,
  gemm: 1,
  fusedmatmul: 1,
  matmulinteger: 1,
  qlinearmatmul: 1,
  fusedgemm: 1,
  matmulnbits: 1,
  add: 2,
  sum: 2,
  mul: 9,
  sub: 2,
  div: 9,
  relu: 4,
  leakyrelu: 4,
  clip: 4,
  sigmoid: 6,
  quickgelu: 6,
  gelu: 6,
  biasgelu: 6,
  erf: 6,
  tanh: 6,
  hardsigmoid: 6,
  hardswish: 6,
  softmax: 3,
  attention: 3,
  multiheadattention: 3,
  groupqueryattention: 3,
  lstm: 3,
  gru: 3,
  maxpool: 5,
  averagepool: 9,
  globalaveragepool: 7,
  reducemean: 7,
  layernormalization: 7,
  skiplayernormalization: 7,
  batchnormalization: 7,
  instancenormalization: 7,
  simplifiedlayernormalization: 7,
  concat: 8,
  reshape: 8,
  transpose: 10,
  slice: 8,
  gather: 11,
  reorderinput: 10,
  reorderoutput: 10,
  resize: 11,
  quantizelinear: 11,
  dequantizelinear: 11,
};

/** FNV-1a: small, and the same everywhere. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}

const known = new Map<string, string>();

export function colourOf(type: string): string {
  let colour = known.get(type);
  if (!colour) {
    const name = type.toLowerCase();
    colour = COLOURS[FIXED[name] ?? hash(name) % COLOURS.length]!;
    // Types come from models: a hostile one must not fill the memory.
    if (known.size < 4096) known.set(type, colour);
  }
  return colour;
}

/** Colours for lines: one each, in order. */
export function lineColour(index: number): string {
  return COLOURS[index % COLOURS.length]!;
}

/**
 * An operator fell back when its session has a better provider than the one it ran on. Fallbacks are hatched, so that
 * they are seen without colour.
 */
export function isFallback(provider: string | null, sessionProviders: readonly string[]): boolean {
  const wanted = sessionProviders[0];
  return provider !== null && wanted !== undefined && wanted !== provider && provider === "CPUExecutionProvider";
}
