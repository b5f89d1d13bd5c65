/** A profile as ONNX Runtime writes it, of any size: what a recording with a million operators is imported from. */

import { createWriteStream } from "node:fs";
import { once } from "node:events";

const TYPES = ["Conv", "Relu", "Conv", "Add", "MatMul", "Softmax", "LayerNormalization", "Transpose", "Mul", "Gemm"];
export const NODES_PER_RUN = 100;
/** Of each ten nodes one falls back: changes of the provider are drawn too. */
const FALLBACK = 7;

/** Numbers that look random and are the same each time. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Writes `operators` events of nodes, with the runs around them. Returns the length in microseconds. */
export async function writeProfile(path: string, operators: number): Promise<number> {
  const file = createWriteStream(path);
  const next = random(1);
  let at = 60_000;
  const session = (name: string, ts: number, dur: number) =>
    `{"cat" : "Session","pid" :4242,"tid" :4242,"dur" :${dur},"ts" :${ts},"ph" : "X","name" :"${name}","args" : {}}`;
  let text = `[\n${session("model_loading_uri", 1, 900)},\n${session("session_initialization", 1000, 50_000)}`;
  for (let done = 0; done < operators; ) {
    const started = at;
    at += 5;
    const begun = at;
    at += 2;
    for (let node = 0; node < NODES_PER_RUN && done < operators; node++, done++) {
      const type = TYPES[node % TYPES.length]!;
      const provider = node % 10 === FALLBACK ? "CPUExecutionProvider" : "DmlExecutionProvider";
      const duration = Math.round(4 + next() ** 4 * 250);
      text += `,\n{"cat" : "Node","pid" :4242,"tid" :4242,"dur" :${duration},"ts" :${at},"ph" : "X","name" :"layer${Math.floor(node / 10)}/${type}_${node}_kernel_time","args" : {"op_name" : "${type}","provider" : "${provider}","node_index" : "${node}","output_size" : "${4096 * (node + 1)}","parameter_size" : "1024","activation_size" : "4096","input_type_shape" : [{"float":[1,64,${node + 1},16]}],"output_type_shape" : [{"float":[1,64,${node + 1},16]}]}}`;
      at += duration + (next() < 0.1 ? 3 : 1);
    }
    text += `,\n${session("SequentialExecutor::Execute", begun, at - begun)}`;
    at += 4;
    text += `,\n${session("model_run", started, at - started)}`;
    at += Math.round(next() * 400);
    if (text.length > 1_000_000) {
      if (!file.write(text)) await once(file, "drain");
      text = "";
    }
  }
  file.end(`${text}\n]\n`);
  await once(file, "finish");
  return at;
}
