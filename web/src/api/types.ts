/**
 * The contract between `ortscope serve` and the dashboard: every answer and every WebSocket frame.
 *
 * Rules that hold everywhere:
 * - The unit is the end of a name (`_ms`, `_seconds`, `_bytes`, `_percent`, `_ns`, `_w`, `_hertz`).
 * - `t_ms`, `from_ms`, `to_ms`, `at_ms` are milliseconds since the source's origin, as floating point. Wall time is
 *   `source.origin_unix_ms + t_ms`. Names that end in `_seconds` inside a report are seconds since the same origin.
 * - `timestamp_ns` and `start_time_ns` stand only in the three wire records: monotonic nanoseconds. They may be larger
 *   than 2^53; do not calculate with them, every record has `t_ms` beside it.
 * - `null` is "not known", never 0; `unavailable` beside it has the reason, by the path of the field.
 * - Percent is 0 to 100 for the machine and for devices; 100 = one core for processes. Ratios and shares are 0 to 1.
 * - All texts of models, programs and recordings are untrusted: textContent only.
 * - docs/API.md has routes, parameters, roles and statuses.
 */

/** Why fields have no value: path of the field → reason (with what to do, where known). */
export type Unavailable = Record<string, string>;

/** Every error: status 4xx or 5xx with this body. */
export interface ApiError {
  error: {
    /** Stable word, e.g. "unauthorized", "forbidden", "not_found", "bad_parameter". */
    code: string;
    /** One sentence. */
    message: string;
    /** What to do, where there is something. */
    hint: string | null;
  };
}

export type Role = "viewer" | "operator" | "admin";

// ---------------------------------------------------------------------------------------------- GET /api/v1/hello

/** First thing to ask: who am I, what is here. */
export interface Hello {
  ortscope_version: string;
  /** Role of this cookie or token. */
  role: Role;
  /** Name of the token, never the token. "login-link" for the page that `serve` opened. */
  identity: string;
  sources: SourceInfo[];
  /** The source to show first. */
  default_source: string;
  /** False where the server only shows recordings: then every control answers 409. */
  has_live: boolean;
  /** Rates that /ws/metrics takes. */
  rate_min_hertz: number;
  rate_max_hertz: number;
  /** True on a connection with TLS. */
  secure: boolean;
}

/** One thing to look at: the live machine or a recording. */
export interface SourceInfo {
  /** "live", or the id of a recording. The value of the query parameter `source`. */
  id: string;
  kind: "live" | "recording";
  /** For headings: name or subject of the recording, "this machine" for live. */
  title: string;
  subject: string;
  /** What made it: live, run, record, attach, import. */
  origin: string;
  /** Wall time of t_ms = 0, milliseconds since 1970. null: not known (imported). */
  origin_unix_ms: number | null;
  /** First and last moment that has data. Of live: to_ms is now. */
  from_ms: number;
  to_ms: number;
  /** It grows: live, or a recording that is being written. */
  growing: boolean;
  sessions: SessionInfo[];
  /** Sentences about damage or loss; empty: all is well. */
  condition: string[];
  /** Which panels can have data: rows by table (only tables with rows). Live: rows so far. */
  rows: Record<string, number>;
}

export interface SessionInfo {
  session_id: string;
  model_name: string;
  /** model_name, with what is different in a sweep. */
  title: string;
  pid: number | null;
  execution_providers: string[];
  ort_version: string | null;
}

/** GET /api/v1/sources */
export interface SourceList {
  sources: SourceInfo[];
}

/** What every answer about a source begins with. */
export interface About {
  source: string;
  /** The range that the numbers cover (after clipping to what there is). */
  from_ms: number;
  to_ms: number;
}

// ------------------------------------------------------------------------------------------ the three wire records

export interface Percentiles {
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  p99_9: number | null;
}

/** One inference. */
export interface InferenceRecord {
  timestamp_ns: number;
  t_ms: number;
  model_name: string | null;
  session_id: string;
  inference_id: string;
  /** Percentiles and jitter (interquartile range) are those of the series up to now, in milliseconds. */
  latency: { end_to_end_ms: number; inference_only_ms: number; percentiles: Percentiles; jitter: number | null };
  energy: {
    power_w: number | null;
    joules: number | null;
    inferences_per_watt: number | null;
    flops_per_watt: number | null;
  };
  hardware: {
    npu_percent: number | null;
    gpu_sm_occupancy: number | null;
    tensor_core_usage: number | null;
    cache_hit_rates: { l1: number | null; l2: number | null; l3: number | null };
  };
  batch_context: { batch_size: number | null; padding_ratio: number | null; queue_depth: number | null };
  unavailable: Unavailable;
}

/** One operator of one profiled run. */
export interface OperationRecord {
  operation_id: string;
  operation_type: string;
  /** CPU, GPU, NPU or Mixed. */
  provider: string | null;
  execution_provider: string | null;
  session_id: string;
  run: number | null;
  start_time_ns: number;
  t_ms: number;
  duration_ms: number;
  cycles: number | null;
  input_shapes: unknown | null;
  output_shapes: unknown | null;
  memory_bytes: number | null;
  unavailable: Unavailable;
}

/** The machine at one moment. */
export interface SystemRecord {
  timestamp_ns: number;
  t_ms: number;
  cpu_percent: number | null;
  memory_percent: number | null;
  gpu_percent: number | null;
  npu_percent: number | null;
  gpu_memory_mb: number | null;
  process_memory_mb: number | null;
  unavailable: Unavailable;
}

// -------------------------------------------------------------------------------------------- GET /metrics/current

/**
 * The newest of everything. Of a finished recording: at its end, or at `at_ms`. The same object is the payload of the
 * WebSocket topics (see below).
 */
export interface Current extends About {
  at_ms: number;
  /** null before the first sample of the machine. */
  system: SystemRecord | null;
  /** One per processor, in order; empty when they are not sampled (unavailable has "cores"). */
  cores: CoreLoad[];
  sessions: SessionNow[];
  devices: DeviceValue[];
  memory: MemoryNow;
  energy: EnergyNow;
  own_cost: OwnCost;
  /** Losses so far, all kinds together; GET /losses has the kinds. */
  lost: number;
  /** Sampling of the live source; null for recordings. */
  control: ControlState | null;
  unavailable: Unavailable;
}

export interface CoreLoad {
  core: number;
  busy_percent: number;
}

/** A session over the last seconds (live: 10 s; recordings: the range). */
export interface SessionNow extends SessionInfo {
  /** Newest inference, null before the first. */
  newest: InferenceRecord | null;
  /** Seconds that the figures cover. */
  window_seconds: number;
  inferences: number;
  failures: number;
  /** Requests per second in the window. */
  requests_per_second: number | null;
  /** Samples (batch × requests) per second: frames per second of a vision model. null without a batch size. */
  samples_per_second: number | null;
  /** The call into ONNX Runtime, milliseconds. null: too few inferences, unavailable says how many it takes. */
  latency_ms: Percentiles;
  jitter_ms: number | null;
  /** Median of the first token, milliseconds; null for models that generate none. */
  first_token_ms: number | null;
  queue_depth: number | null;
  batch_size: number | null;
  unavailable: Unavailable;
}

/** One reading of a sensor. */
export interface DeviceValue {
  /** e.g. "gpu0", "npu0", "package-0", "cpu3". */
  device: string;
  /** e.g. "utilization_ratio"; the end is the unit. */
  metric: string;
  value: number;
  t_ms: number;
  age_ms: number;
  /** Where it comes from, e.g. "nvml", "rapl", "process-sampler". */
  origin: string;
  /** measured, attributed or estimated. */
  method: string;
}

export interface MemoryNow {
  used_bytes: number | null;
  total_bytes: number | null;
  swap_used_bytes: number | null;
  /** Resident memory of the processes that have a session; null if none was sampled. */
  sessions_bytes: number | null;
}

export interface EnergyNow {
  power_w: number | null;
  joules_per_inference: number | null;
  inferences_per_watt: number | null;
  flops_per_watt: number | null;
  /** Hottest sensor. */
  temperature_celsius: number | null;
  /** null: no source tells. */
  throttled: boolean | null;
  unavailable: Unavailable;
}

/** What watching costs. */
export interface OwnCost {
  /** 100 = one core. Of the sampling itself. */
  cpu_percent: number | null;
  memory_bytes: number | null;
  /** Of the whole server process. */
  server_cpu_percent: number | null;
  server_memory_bytes: number | null;
  rate_hertz: number | null;
  asked_hertz: number | null;
  late_ticks: number | null;
  skipped_ticks: number | null;
}

// -------------------------------------------------------------------------------------------- GET /metrics/catalog

export interface Catalog {
  source: string;
  metrics: MetricInfo[];
  /** Series that exist now in this source; `track` is what /metrics/history takes. */
  tracks: TrackInfo[];
  /** Tracks beyond the limit (5000) that are not listed. */
  tracks_not_listed: number;
}

export interface MetricInfo {
  /** e.g. "cpu_percent". */
  name: string;
  subject: "system" | "session" | "process" | "device" | "inference" | "operation";
  unit: UnitName;
  description: string;
  chart: "line" | "area" | "gauge" | "bar" | "histogram" | "timeline" | "table";
  /** Path in a wire record, e.g. "latency.end_to_end_ms"; null for metrics that are only tracks. */
  wire: string | null;
}

/** none, nanoseconds, milliseconds, bytes, count, ratio, percent, hertz, watts, joules. */
export type UnitName =
  | "none" | "nanoseconds" | "milliseconds" | "bytes" | "count" | "ratio" | "percent" | "hertz" | "watts" | "joules";

export interface TrackInfo {
  /** e.g. "system/cpu_percent", "session/<id>/latency_ns", "process/<pid>:<start>/working_set_bytes", "device/gpu0/power_watts". */
  track: string;
  metric: string;
  unit: UnitName;
  /** Program, model or device. */
  label: string | null;
  /** Where the numbers come from. */
  origin: string;
  method: string;
  first_ms: number;
  newest_ms: number;
  /** The process or device ended then. */
  ended_ms: number | null;
}

// -------------------------------------------------------------------------------------------- GET /metrics/history

export interface History extends About {
  series: HistorySeries[];
  /** Pass as `cursor` for the next series; null: that was all. */
  next: string | null;
}

/** Columns of equal length. At the full rate count is 1 and all numbers of a point are the same. */
export interface HistorySeries {
  track: string;
  metric: string;
  unit: UnitName;
  label: string | null;
  tier: "full_rate" | "seconds" | "minutes" | "step";
  /** Start of each point's interval. */
  t_ms: number[];
  /** Width of a point's interval; 0 at the full rate. */
  step_ms: number;
  count: number[];
  min: number[];
  max: number[];
  mean: number[];
  p50: number[];
  p95: number[];
  p99: number[];
  /** Parts of the range without points, and why. */
  gaps: HistoryGap[];
}

export interface HistoryGap {
  from_ms: number;
  to_ms: number;
  why: "unavailable" | "not_yet" | "forgotten" | "ended";
  /** For people, with `unavailable`. */
  reason: string | null;
  hint: string | null;
}

// ----------------------------------------------------------------------------------------------------- GET /timeline

/**
 * With `width`: rectangles for drawing (kind "tiles"). Without: wire records with paging (kind "records").
 */
export type TimelineAnswer = TimelineTiles | TimelineRecords;

export interface TimelineRecords extends About {
  kind: "records";
  operations: OperationRecord[];
  next: string | null;
}

export interface TimelineTiles extends About {
  kind: "tiles";
  lanes: TimelineLane[];
  /** Texts that rectangles refer to by index; [0] is "". */
  names: string[];
  types: string[];
  providers: string[];
  /** Where execution goes from one provider to another. At most 2000; more are counted. */
  transitions: TimelineTransition[];
  transitions_not_listed: number;
  /** Annotations and other marks, at most 500. */
  marks: TimelineMark[];
  /** Events in the range that match the filter / rectangles that were sent / events that share one with others. */
  events: number;
  rectangles: number;
  merged_events: number;
  /** Lanes beyond the limit (64): their events are only counted. */
  hidden_lanes: number;
  hidden_events: number;
  /** Why a kind of lane is missing, e.g. "kernel": "no kernel events were recorded; …". */
  unavailable: Unavailable;
}

export interface TimelineLane {
  /** Stable over zooming. */
  id: string;
  /** For people, e.g. "CPU · thread 4711". */
  title: string;
  /**
   * inferences: one rectangle per inference (per session and stream).
   * runs: profiled runs. operators: operators, copies and waits of one provider on one thread.
   * kernel: time off the processor and other kernel events of one thread.
   */
  kind: "inferences" | "runs" | "operators" | "kernel";
  session_id: string | null;
  /** CPU, GPU, NPU, Mixed or null. */
  provider: string | null;
  execution_provider: string | null;
  pid: number | null;
  thread: number | null;
  /** Rows of the lane: 1 + highest depth. */
  rows: number;
  /** Share of the range in which something ran, 0 to 1. */
  busy_ratio: number;
  rects: TimelineRects;
}

/** Columns of equal length, ascending by t_ms within a row. */
export interface TimelineRects {
  t_ms: number[];
  duration_ms: number[];
  /** Time in which something ran inside: less than duration for merged ones with gaps. */
  busy_ms: number[];
  /** Row of the lane, from 0. */
  row: number[];
  /** Index into names. Merged: 0. */
  name: number[];
  /** Index into types: operator type, phase of an inference or kind of kernel event. Merged: the one with most time. */
  type: number[];
  /** Index into providers. */
  provider: number[];
  /** Events that this rectangle stands for. */
  count: number[];
  /** For GET /timeline/event; -1 when merged. */
  id: number[];
}

export interface TimelineTransition {
  t_ms: number;
  from_lane: string;
  to_lane: string;
  from_provider: string;
  to_provider: string;
  session_id: string;
}

export interface TimelineMark {
  t_ms: number;
  kind: string;
  text: string;
}

/** GET /timeline/event?source=&lane=&id= : all about one rectangle. */
export interface TimelineEvent {
  source: string;
  lane: string;
  /** Exactly one of the three is not null. */
  operation: OperationRecord | null;
  inference: InferenceRecord | null;
  kernel: KernelEvent | null;
  /** Nodes that it needs and that need it, of the same run, when the recording has the graph. */
  dependencies: { needs: TimelineRef[]; needed_by: TimelineRef[] } | null;
  /** Other figures in order, for a list: name → value with unit in the name. */
  details: Record<string, string | number | null>;
  unavailable: Unavailable;
}

export interface TimelineRef {
  lane: string;
  id: number;
  name: string;
  t_ms: number;
  duration_ms: number;
}

export interface KernelEvent {
  t_ms: number;
  kind: string;
  processor: number | null;
  pid: number | null;
  tid: number | null;
  duration_ms: number | null;
  value: number | null;
  detail: string | null;
}

// ------------------------------------------------------------------------------------------------------ GET /latency

/** Latency per session in the range: what the report says, made of the range alone. */
export interface Latency extends About {
  sessions: SessionLatency[];
  /** Sessions and inferences beyond the limit (32). */
  other_sessions: { sessions: number; inferences: number };
  /** Which sources could explain slow inferences. */
  explanation_sources: { source: string; rows: number; sentence: string }[];
}

export interface SessionLatency {
  session_id: string;
  title: string;
  model_name: string;
  label: string | null;
  pid: number | null;
  execution_providers: string[];
  ort_version: string | null;
  scenario: string | null;
  counts: { total: number; failed: number; by_phase: Record<string, number> };
  first_seconds: number | null;
  last_seconds: number | null;
  first_runs_ms: number[];
  /** every 1: all inferences are in the statistics; 4: every 4th. */
  sampling: { every: number; sentence: string | null };
  warm_up: { discarded: number; at_limit: boolean; verdict: unknown } | null;
  /** The call alone, after the warm-up. */
  inference: LatencyFigures | null;
  end_to_end: LatencyFigures | null;
  /** Means that add up to the mean end to end. */
  parts: { n: number; copy_in_ms: number; run_ms: number; copy_out_ms: number } | null;
  throughput: {
    requests: number;
    seconds: number;
    requests_per_second: number;
    samples_per_second: number | null;
    concurrency: number;
  } | null;
  histogram: {
    /** One more than bins. */
    edges_ms: number[];
    counts: number[];
    /** The last bin holds all outliers above. */
    tail: boolean;
  } | null;
  over_time: {
    /** 0: each point is one inference. */
    bucket_seconds: number;
    warm_up_ends_seconds: number | null;
    points: { offset_seconds: number; n: number; min_ms: number; median_ms: number; p99_ms: number; max_ms: number }[];
  } | null;
  /** The slowest inferences, with what was recorded inside them. */
  slow: {
    count: number;
    of: number;
    limit_ms: number;
    median_ms: number;
    usual_inferences: number;
    shown: SlowInference[];
    causes: { cause: string; inferences: number }[];
  } | null;
  /** Open-loop scenarios. */
  server: Record<string, unknown> | null;
  /** Decoder models: first token, between tokens. */
  generation: {
    sequences: number;
    tokens: number;
    first_token_median_ms: number | null;
    first_token_ms: Record<string, number | null>;
    between_tokens_ms: Record<string, number | null>;
    decode_tokens_per_second: number | null;
    tokens_per_second: number | null;
    growth_ms_per_100_tokens: number | null;
  } | null;
  cold: {
    file_read_ms: number | null;
    session_first_ms: number | null;
    session_again_ms: number | null;
    first_run_ms: number | null;
  } | null;
  memory: {
    peak_bytes: number | null;
    session_bytes: number | null;
    first_run_bytes: number | null;
    growth_per_inference_bytes: number | null;
  } | null;
  cpu_cores_used: number | null;
  placement: { provider: string; nodes: number }[];
  notes: string[];
}

export interface LatencyFigures {
  runs: number;
  mean_ms: number;
  median_ms: number;
  min_ms: number;
  max_ms: number;
  std_ms: number | null;
  percentiles: Record<"p50" | "p90" | "p95" | "p99" | "p99_9", number | null>;
  /** 95 % intervals by percentile; an upper end of null is unknown. */
  intervals: Record<string, [number | null, number | null]>;
  /** Runs that a missing percentile needs. */
  needs_runs: Record<string, number>;
  noise_factor: number;
  jitter: {
    iqr_ms: number;
    successive_difference_ms: number | null;
    p99_minus_p50_ms: number | null;
    p99_9_over_p50: number | null;
  };
  outliers: {
    count: number;
    share: number;
    share_of_time: number;
    bursts: number;
    in_bursts: number;
    clustered: boolean;
    change_result: boolean;
    limit_ms: number;
    rule: string;
    /** For people. */
    note: string;
  };
  stability: {
    verdict: string;
    lag1_autocorrelation: number | null;
    drift: number | null;
    noise_factor: number;
    reason: string;
  };
}

export interface SlowInference {
  sequence: number;
  stream: number;
  start_seconds: number;
  latency_ms: number;
  times_median: number;
  copy_in_ms: number;
  run_ms: number;
  copy_out_ms: number;
  causes: {
    cause: string;
    sentence: string;
    brief: string;
    count: number | null;
    usual_count: number | null;
    duration_ms: number | null;
    usual_ms: number | null;
    share_of_excess: number | null;
  }[];
  verdict: "yes" | "partly" | "no" | "unknown";
  sentence: string;
  /** What devices and the machine did around it, read within 100 ms. */
  around: {
    device: string;
    metric: string;
    value: number;
    distance_ms: number;
    /** The reading is a mean of so long a time. */
    mean_of_ms: number | null;
  }[];
}

// ---------------------------------------------------------------------------------------------------- GET /operators

export interface Operators extends About {
  sessions: SessionOperators[];
}

export interface SessionOperators {
  session_id: string;
  title: string;
  runs: number;
  events: number;
  run_total_ms: number | null;
  run_median_ms: number | null;
  /** Time of the profiled run over that of one without profiling. */
  observer_factor: number | null;
  /** Time in runs in which nothing was active: show it as a row of its own. */
  unattributed: { total_ms: number; mean_ms: number; share: number } | null;
  unattributed_unknown: string | null;
  /** Above 1: operators ran in parallel. */
  parallelism: number | null;
  by_type: OperatorType[];
  by_node: OperatorNode[];
  other_nodes: { nodes: number; calls: number; self_ms: number };
  placement: { execution_provider: string; device: string; nodes: number; self_ms: number; share: number }[];
  session_events: { name: string; count: number; total_ms: number }[];
  /** Work, limits, graph and memory of the profiling pass (`ortscope run`); null for others. See docs/OPERATORS.md. */
  insight: Record<string, unknown> | null;
}

export interface CallTimes {
  calls: number;
  self_ms: number;
  share: number | null;
  mean_ms: number;
  max_ms: number;
  p50_ms: number | null;
  p99_ms: number | null;
}

export interface OperatorType {
  kind: "operator" | "copy" | "wait";
  op_type: string;
  execution_provider: string;
  device: string;
  nodes: number;
  times: CallTimes;
}

export interface OperatorNode {
  kind: "operator" | "copy" | "wait";
  name: string;
  op_type: string;
  execution_provider: string;
  device: string;
  depth: number;
  /** JSON text, e.g. "[[1,3,224,224]]". */
  input_shapes: string | null;
  output_bytes: number | null;
  /** Of one call. */
  flops: number | null;
  times: CallTimes;
}

// ------------------------------------------------------------------------------------------------------ GET /batches

/** Latency, throughput and memory against the batch size. One row per session and batch size. */
export interface Batches extends About {
  rows: {
    session_id: string;
    title: string;
    batch_size: number | null;
    inferences: number;
    latency_p50_ms: number | null;
    latency_p99_ms: number | null;
    requests_per_second: number | null;
    samples_per_second: number | null;
    /** Highest memory of its process while it ran. */
    peak_memory_bytes: number | null;
    padding_ratio: number | null;
    queue_depth_mean: number | null;
    queue_depth_max: number | null;
  }[];
  unavailable: Unavailable;
}

// ------------------------------------------------------------------------------------------------------- GET /memory

export interface Memory extends About {
  /** Rows of the table `memory`: arenas, allocators, process. In the order of time, at most 5000. */
  rows: { t_ms: number; session_id: string; scope: string; metric: string; bytes: number }[];
  rows_not_listed: number;
  /** Tracks to draw with /metrics/history: process and device memory. */
  tracks: string[];
  unavailable: Unavailable;
}

// ------------------------------------------------------------------------------------------------------- GET /energy

export interface Energy extends About {
  power_w: { mean: number; max: number; last: number } | null;
  joules: number | null;
  joules_per_inference: number | null;
  inferences_per_watt: number | null;
  flops_per_watt: number | null;
  /** joules × the user's grams per kilowatt hour; null when that is not configured. */
  carbon_grams: number | null;
  carbon_grams_per_kwh: number | null;
  temperatures: { device: string; mean_celsius: number; max_celsius: number; last_celsius: number }[];
  throttling: { events: number; total_ms: number } | null;
  /** Tracks to draw. */
  tracks: string[];
  unavailable: Unavailable;
}

// ---------------------------------------------------------------------------------------------------- GET /processes

export interface Processes extends About {
  /** Busiest first; `limit` (default 200, at most 1000). */
  processes: ProcessFigures[];
  not_listed: number;
}

export interface ProcessFigures {
  pid: number;
  /** With pid it names the process; opaque text. Track names: `process/${pid}:${start}/…`. */
  start: string;
  name: string;
  /** It has a session of ONNX Runtime. */
  observed: boolean;
  parent_pid: number | null;
  /** Redacted; null when it was not recorded. */
  command_line: string | null;
  /** 100 = one core. Live: now; recordings: mean over the range. */
  cpu_percent: number | null;
  /** CPU time in the range; null for live. */
  cpu_seconds: number | null;
  working_set_bytes: number | null;
  peak_working_set_bytes: number | null;
  private_bytes: number | null;
  thread_count: number | null;
  handle_count: number | null;
  read_bytes_per_second: number | null;
  write_bytes_per_second: number | null;
  context_switches_per_second: number | null;
  page_faults_per_second: number | null;
  ended_ms: number | null;
  exit_code: number | null;
}

// ----------------------------------------------------------------------------------------------------- GET /findings

export interface Findings extends About {
  findings: Finding[];
  annotations: { offset_seconds: number; kind: string; text: string }[];
}

/** Gravest first. */
export interface Finding {
  id: string;
  severity: "error" | "warning" | "advice";
  evidence: string;
  advice: string;
  command: string | null;
}

// ------------------------------------------------------------------------------------------------------- GET /losses

/** Losses, what has no value and why, and what watching costs: always visible. */
export interface Losses extends About {
  total: number;
  losses: { place: string; kind: string; count: number }[];
  /** Live only: what the memory of the server could not keep. */
  memory: { kind: string; count: number; meaning: string }[];
  unavailable: { metric: string; reason: string; hint: string | null; seconds: number | null }[];
  /** What a limit kept out of the lists of reports, in words. */
  left_out: string[];
  condition: string[];
  own_cost: OwnCost;
  /** Clients of this server. */
  clients: { websockets: number; frames_sent: number; frames_dropped: number };
}

// ------------------------------------------------------------------------------------------------------- GET /system

export interface SystemInfo {
  source: string;
  /** Facts of the machine in words: cpu_model, logical_cpus, os, governor, … */
  machine: Record<string, string>;
  ort_versions: string[];
  execution_providers: string[];
  ortscope_version: string;
  /** Version that made the recording. */
  recorded_by: string;
  command: string | null;
  started_utc: string | null;
  duration_seconds: number;
  ended: string;
  complete: boolean;
  provenance: { numbers: string; source: string; method: string; n: number }[];
  devices: DeviceValue[];
}

// --------------------------------------------------------------------------------------------------- recordings

/** GET /recordings */
export interface RecordingList {
  recordings: RecordingEntry[];
  /** `limit` and `cursor` as everywhere. */
  next: string | null;
}

export interface RecordingEntry {
  id: string;
  name: string | null;
  tags: string[];
  origin: string;
  subject: string;
  command: string | null;
  ortscope_version: string;
  started_unix_ms: number;
  duration_ms: number | null;
  /** Why it ended. */
  reason: string | null;
  rows: number | null;
  bytes: number;
  finished: boolean;
  being_written: boolean;
  damaged: boolean;
  problem: string | null;
  /** Without its key only id, size and time are known, and `problem` says so. */
  encrypted: boolean;
}

/** GET /recordings/{id} */
export interface RecordingDetail {
  recording: RecordingEntry;
  source: SourceInfo;
  tables: { table: string; rows: number; bytes: number }[];
}

/** DELETE /recordings/{id} (admin) */
export interface RecordingRemoved {
  id: string;
  bytes: number;
}

// ------------------------------------------------------------------------------------------------------ GET /compare

/** Differences between two recordings. Not a verdict: `ortscope compare` gives one. */
export interface Compare {
  a: SourceInfo;
  b: SourceInfo;
  /** Always "difference". */
  kind: "difference";
  /** Machine facts that differ: then times are not comparable. */
  machine_differences: { fact: string; a: string | null; b: string | null }[];
  comparable: boolean;
  /** In one sentence why (not). */
  comparable_note: string;
  /** Sessions paired by model name and order. */
  sessions: {
    title: string;
    a_session_id: string | null;
    b_session_id: string | null;
    metrics: CompareMetric[];
    /** Same bins for both, for drawing one over the other. */
    histogram: { edges_ms: number[]; a: number[]; b: number[] } | null;
  }[];
  /** Operators by type; mean self time per run. Largest absolute difference first. */
  operators: CompareOperator[];
  /** By node name; at most 500. */
  nodes: CompareOperator[];
  nodes_not_listed: number;
}

export interface CompareMetric {
  /** e.g. "p50_ms", "p99_ms", "requests_per_second", "peak_memory_bytes", "joules_per_inference". */
  name: string;
  unit: string;
  a: number | null;
  b: number | null;
  /** b - a. */
  difference: number | null;
  /** b / a - 1, e.g. 0.05 = 5 % more. */
  ratio: number | null;
  /** Which direction is good. */
  better: "lower" | "higher";
  /** 95 % intervals, where known. */
  a_interval: [number | null, number | null] | null;
  b_interval: [number | null, number | null] | null;
}

export interface CompareOperator {
  name: string;
  op_type: string;
  execution_provider_a: string | null;
  execution_provider_b: string | null;
  calls_a: number;
  calls_b: number;
  /** Mean self time per profiled run. */
  ms_per_run_a: number | null;
  ms_per_run_b: number | null;
  difference_ms: number | null;
  ratio: number | null;
}

// -------------------------------------------------------------------------------------------------------- control

/** GET /control (viewer), POST /control/pause, /control/resume, /control/rate {"hertz": 10},
 *  /control/record/start {"name": "…"|null}, /control/record/stop (operator): all answer with the new state. */
export interface ControlState {
  paused: boolean;
  /** Sampling rate asked for, and in force (the own cost limit may lower it). */
  asked_hertz: number;
  rate_hertz: number;
  recording: { id: string; started_unix_ms: number; rows: number } | null;
}

/** POST /ws/ticket (viewer): for a page of another origin, which has no cookie. Single use, 30 s. */
export interface WsTicket {
  ticket: string;
  expires_in_seconds: number;
}

// ---------------------------------------------------------------------------------------------------- WS /ws/metrics

/**
 * Text frames of JSON. Client → server: ClientFrame, at most 16 KiB. The first frame must be `subscribe` (with a
 * `ticket` when there is no cookie) within 10 s. A later `subscribe` replaces the earlier.
 */
export type ClientFrame =
  | {
      type: "subscribe";
      /** Default "live". Recordings give one frame, and then only pings. */
      source?: string;
      topics: Topic[];
      /** 0.2 to 60. */
      rate_hertz: number;
      ticket?: string;
    }
  | { type: "ping"; id?: number };

export type Topic = "system" | "sessions" | "devices" | "processes" | "events" | "losses";

export type ServerFrame = HelloFrame | MetricsFrame | DroppedFrame | PongFrame | ErrorFrame;

export interface HelloFrame {
  type: "hello";
  source: string;
  topics: Topic[];
  rate_hertz: number;
  origin_unix_ms: number | null;
}

/** One per tick. Only subscribed topics are there. */
export interface MetricsFrame {
  type: "metrics";
  source: string;
  /** Grows by one per tick that was made for this rate; holes = dropped frames. */
  sequence: number;
  /** When the frame was made. */
  at_ms: number;
  /** Time of the newest sample in it; at_ms - newest_ms is its age. */
  newest_ms: number;
  /** topic "system" */
  system?: { system: SystemRecord | null; cores: CoreLoad[]; memory: MemoryNow; control: ControlState | null };
  /** topic "sessions" */
  sessions?: SessionNow[];
  /** topic "devices" */
  devices?: { devices: DeviceValue[]; energy: EnergyNow };
  /** topic "processes": the 50 busiest. */
  processes?: ProcessFigures[];
  /** topic "events": inferences since the frame before, newest last, at most 500 (older ones are counted). */
  events?: {
    session_id: string[];
    t_ms: number[];
    run_ms: number[];
    end_to_end_ms: number[];
    ok: boolean[];
    not_sent: number;
  };
  /** topic "losses" */
  losses?: { lost: number; own_cost: OwnCost };
  unavailable?: Unavailable;
}

/** Before a metrics frame, when this client was too slow for some: frames it missed since it connected. */
export interface DroppedFrame {
  type: "dropped";
  dropped: number;
}

export interface PongFrame {
  type: "pong";
  id: number | null;
}

export interface ErrorFrame {
  type: "error";
  error: ApiError["error"];
}
