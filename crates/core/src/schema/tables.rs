//! The table declarations. A new kind of data starts here.

use super::{
    Cell, Column, ColumnDef, KernelEventKind, Method, Named, OperatorKind, Phase, Row, Severity, TableDef,
    TableKind, Text, Unit, declare_tables, table_kind,
};

declare_tables! {
    /// One finished inference of any program.
    InferenceRow in Inferences = "inferences" {
        /// When the request was started, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// When it should have started (open-loop scenarios); equal to the timestamp in closed loops.
        planned_ns: u64, Nanoseconds;
        /// Identifier of the session, as text.
        session_id: Text, None;
        /// Number of this inference in its session, from 0.
        sequence: u64, Count;
        /// Concurrent stream (thread) that ran it.
        stream: u64, Count;
        /// Phase of the measurement: first, steady, prefill, token or profiled.
        phase: Named<Phase>, None;
        /// Copying the inputs into the session's buffers.
        copy_in_ns: u64, Nanoseconds;
        /// The call into ONNX Runtime alone.
        run_ns: u64, Nanoseconds;
        /// Waiting for the device and copying the outputs back.
        copy_out_ns: u64, Nanoseconds;
        /// Samples in this inference's batch.
        batch_size: Option<u64>, Count;
        /// Requests waiting when this one started (open-loop scenarios).
        queue_depth: Option<u64>, Count;
        /// Position of the generated token (decoder models).
        token: Option<u64>, Count;
        /// False if the call returned an error.
        ok: bool, None;
    }

    /// A session of ONNX Runtime that was seen.
    SessionRow in Sessions = "sessions" {
        /// When it was created, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Identifier of the session, as text.
        session_id: Text, None;
        /// Process that owns it; none for imported data without process ids.
        pid: Option<u64>, None;
        /// Name of the model.
        model_name: Text, None;
        /// Execution providers of the session in their order, separated by commas.
        execution_providers: Text, None;
        /// Version of ONNX Runtime.
        ort_version: Option<Text>, None;
        /// Session options as JSON.
        options: Option<Text>, None;
    }

    /// One operator of one profiled run, or another part of the run.
    OperatorRow in Operators = "operators" {
        /// When it started, on the monotonic clock (imported profiles: from the start of the profile).
        timestamp_ns: u64, Nanoseconds;
        /// How long it took.
        duration_ns: u64, Nanoseconds;
        /// Identifier of the session, as text.
        session_id: Text, None;
        /// Number of the profiled run it belongs to, from 0; none for events outside runs.
        run: Option<u64>, Count;
        /// Kind of row: operator, copy, wait, run, executor, session (loading and initializing), other.
        kind: Named<OperatorKind>, None;
        /// Name of the node, or of the event for other kinds of rows.
        name: Text, None;
        /// Type of the operator, e.g. Conv.
        op_type: Text, None;
        /// Index of the node in the optimized graph.
        node_index: Option<u64>, Count;
        /// ONNX Runtime's name of the execution provider.
        execution_provider: Text, None;
        /// Kind of device: CPU, GPU, NPU or Mixed; empty if not known.
        device: Text, None;
        /// Thread that ran it.
        thread: u64, None;
        /// 0 for nodes of the main graph, 1 for those of its subgraphs, and so on.
        depth: u64, Count;
        /// Shapes of the inputs as JSON, e.g. [[1,3,224,224]].
        input_shapes: Option<Text>, None;
        /// Element types of the inputs as JSON.
        input_types: Option<Text>, None;
        /// Shapes of the outputs as JSON.
        output_shapes: Option<Text>, None;
        /// Element types of the outputs as JSON.
        output_types: Option<Text>, None;
        /// Bytes of its outputs.
        output_bytes: Option<u64>, Bytes;
        /// Bytes of its inputs that are activations.
        activation_bytes: Option<u64>, Bytes;
        /// Bytes of its inputs that are parameters.
        parameter_bytes: Option<u64>, Bytes;
        /// Floating-point operations; one multiplication with its addition counts two.
        flops: Option<u64>, Count;
        /// Cycles of the device, as the provider reports them.
        cycles: Option<u64>, Count;
        /// Bytes that its provider's allocator had in use when it ended.
        memory_in_use_bytes: Option<u64>, Bytes;
        /// Change of that number since it began.
        memory_delta_bytes: Option<i64>, Bytes;
        /// Memory that the allocator's arena held when it ended, in use or not.
        arena_bytes: Option<u64>, Bytes;
        /// Time its calling thread worked on its own share of the thread pool's work.
        pool_run_ns: Option<u64>, Nanoseconds;
        /// Time its calling thread waited for the other threads of the pool.
        pool_wait_ns: Option<u64>, Nanoseconds;
        /// Work items that the other threads of the pool have run since the pool was created.
        pool_helper_runs: Option<u64>, Count;
    }

    /// A process that was seen to start or end.
    ProcessRow in Processes = "processes" {
        /// When it was first seen, or seen to end, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Process id.
        pid: u64, None;
        /// Start time of the process in the system's unit: with the id it names the process.
        process_start: u64, None;
        /// What happened: seen, started, exited.
        event: Text, None;
        /// Name of the program.
        name: Text, None;
        /// Process id of the parent.
        parent_pid: Option<u64>, None;
        /// Session of the operating system (Windows) or session leader (Linux).
        os_session: Option<u64>, None;
        /// Wall time of its start, nanoseconds since 1970.
        create_time_unix_ns: Option<u64>, Nanoseconds;
        /// Exit code; absent while the process is running.
        exit_code: Option<i64>, None;
        /// Command line, redacted unless the user disabled redaction.
        command_line: Option<Text>, None;
    }

    /// A sample of one process. Times and counts are totals since the process started; percentages are derived.
    ProcessSampleRow in ProcessSamples = "process_samples", sampled by [pid, process_start] {
        /// When the sample was taken, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Process id.
        pid: u64, None;
        /// Start time of the process in the system's unit: with the id it names the process.
        process_start: u64, None;
        /// CPU time used since the process started.
        cpu_time_ns: u64, Nanoseconds;
        /// CPU time in user mode.
        user_time_ns: Option<u64>, Nanoseconds;
        /// CPU time in the kernel.
        kernel_time_ns: Option<u64>, Nanoseconds;
        /// Cycles of all its threads.
        cpu_cycles: Option<u64>, Count;
        /// Context switches of all its threads.
        context_switches: Option<u64>, Count;
        /// Scheduling priority in the system's scale.
        priority: Option<i64>, None;
        /// Processors it may run on, as a bit mask of the first 64.
        affinity_mask: Option<u64>, None;
        /// Resident memory now (rss, working set).
        working_set_bytes: u64, Bytes;
        /// Highest resident memory so far.
        peak_working_set_bytes: Option<u64>, Bytes;
        /// Memory that belongs to this process alone.
        private_bytes: Option<u64>, Bytes;
        /// Address space in use.
        virtual_bytes: Option<u64>, Bytes;
        /// Page faults of all kinds.
        page_faults: Option<u64>, Count;
        /// Page faults that had to read from a disk.
        hard_faults: Option<u64>, Count;
        /// Kernel paged pool charged to the process (Windows).
        paged_pool_bytes: Option<u64>, Bytes;
        /// Kernel non-paged pool charged to the process (Windows).
        non_paged_pool_bytes: Option<u64>, Bytes;
        /// Threads alive.
        thread_count: Option<u64>, Count;
        /// Threads that run or could run.
        active_threads: Option<u64>, Count;
        /// Threads that are stopped.
        suspended_threads: Option<u64>, Count;
        /// Read calls.
        read_operations: Option<u64>, Count;
        /// Write calls.
        write_operations: Option<u64>, Count;
        /// Other I/O calls (Windows).
        other_operations: Option<u64>, Count;
        /// Bytes read.
        read_bytes: Option<u64>, Bytes;
        /// Bytes written.
        write_bytes: Option<u64>, Bytes;
        /// Bytes received from the network.
        network_received_bytes: Option<u64>, Bytes;
        /// Bytes sent to the network.
        network_sent_bytes: Option<u64>, Bytes;
        /// Packets received from the network.
        network_received_packets: Option<u64>, Count;
        /// Packets sent to the network.
        network_sent_packets: Option<u64>, Count;
        /// Connections that are open now.
        network_connections: Option<u64>, Count;
        /// Open handles or file descriptors.
        handle_count: Option<u64>, Count;
        /// Maximum number of handles open at once.
        peak_handle_count: Option<u64>, Count;
        /// GDI objects (Windows).
        gdi_objects: Option<u64>, Count;
        /// USER objects (Windows).
        user_objects: Option<u64>, Count;
    }

    /// A sample of one thread. Times and counts are totals since the thread started.
    ThreadSampleRow in ThreadSamples = "thread_samples", sampled by [pid, process_start, tid] {
        /// When the sample was taken, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Process id.
        pid: u64, None;
        /// Start time of the process in the system's unit.
        process_start: u64, None;
        /// Thread id.
        tid: u64, None;
        /// Name of the thread, where the system has one.
        name: Option<Text>, None;
        /// CPU time of the thread.
        cpu_time_ns: u64, Nanoseconds;
        /// Cycles of the thread.
        cpu_cycles: Option<u64>, Count;
        /// Context switches of the thread.
        context_switches: Option<u64>, Count;
        /// State: running, ready, waiting, stopped, other.
        state: Option<Text>, None;
        /// Processor it ran on last.
        processor: Option<u64>, None;
        /// Scheduling priority in the system's scale.
        priority: Option<i64>, None;
    }

    /// A sample of the whole machine.
    SystemSampleRow in SystemSamples = "system_samples", sampled by [] {
        /// When the sample was taken, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Busy share of all processors, 0 to 100, since the previous sample.
        cpu_percent: Option<f64>, Percent;
        /// Physical memory in use.
        memory_used_bytes: Option<u64>, Bytes;
        /// Physical memory installed.
        memory_total_bytes: Option<u64>, Bytes;
        /// Swap or page file in use.
        swap_used_bytes: Option<u64>, Bytes;
        /// Context switches of the machine since it started.
        context_switches: Option<u64>, Count;
        /// Interrupts of the machine since it started.
        interrupts: Option<u64>, Count;
        /// Processes alive.
        process_count: Option<u64>, Count;
        /// Mean frequency of the processors.
        cpu_frequency_hertz: Option<f64>, Hertz;
    }

    /// One reading of one sensor of a device: a GPU, an NPU, a power meter, a thermometer.
    DeviceSampleRow in DeviceSamples = "device_samples", sampled by [device, metric] {
        /// When the reading was taken, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// The device, e.g. gpu0, npu0, package-0.
        device: Text, None;
        /// The metric, e.g. utilization_ratio, power_watts, temperature_celsius.
        metric: Text, None;
        /// The value, in the unit the metric's name ends with.
        value: f64, None;
        /// Where it comes from, e.g. nvml, rapl, emi.
        source: Text, None;
        /// How: measured, attributed or estimated.
        method: Named<Method>, None;
    }

    /// Something the kernel did: scheduling, faults, I/O, throttling.
    KernelEventRow in KernelEvents = "kernel_events" {
        /// When, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Kind: context_switch, wait, migration, page_fault, hard_fault, disk_io, memory_map, memory_unmap, memory_heap,
        /// image_load, file_read, file_write, file_open, file_sync, thread_start, thread_exit, throttle, sample,
        /// network_send, network_receive, network_connect, network_disconnect, network_retransmit, power, processor_counter.
        kind: Named<KernelEventKind>, None;
        /// Processor it happened on.
        processor: Option<u64>, None;
        /// Process concerned.
        pid: Option<u64>, None;
        /// Thread concerned.
        tid: Option<u64>, None;
        /// How long it lasted, e.g. the time a thread was off the processor.
        duration_ns: Option<u64>, Nanoseconds;
        /// Its number, e.g. an address, a size, a frequency.
        value: Option<u64>, None;
        /// Details as text, e.g. the name of the thread that ran instead.
        detail: Option<Text>, None;
    }

    /// Memory of a session or an allocator at a point in time.
    MemoryRow in Memory = "memory" {
        /// When, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Identifier of the session, as text; empty if it is of the whole process.
        session_id: Text, None;
        /// Whose memory: process, arena, node, or the name of an allocator.
        scope: Text, None;
        /// Meaning of the number, e.g. after_session, in_use, peak, max_alloc.
        metric: Text, None;
        /// The number.
        bytes: i64, Bytes;
    }

    /// Something a user should act on.
    FindingRow in Findings = "findings" {
        /// When it was found, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Stable identifier, e.g. provider-fallback.
        id: Text, None;
        /// error, warning or advice.
        severity: Named<Severity>, None;
        /// The observation, with numbers.
        evidence: Text, None;
        /// The recommended action.
        advice: Text, None;
        /// A command to try.
        command: Option<Text>, None;
    }

    /// Something happened that is worth a mark on the time line.
    AnnotationRow in Annotations = "annotations" {
        /// When, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Kind of the mark, e.g. session_created, log, stop.
        kind: Text, None;
        /// Description as text or JSON.
        text: Text, None;
    }

    /// Data that was lost, counted: nothing disappears silently.
    LossRow in Losses = "losses" {
        /// When the loss was noticed, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Where: the source, queue or sink.
        place: Text, None;
        /// Which table or kind of record.
        kind: Text, None;
        /// How many records since the last such row.
        count: u64, Count;
    }

    /// An interval in which a track had no value, and why.
    UnavailabilityRow in Unavailability = "unavailability" {
        /// Start of the interval, on the monotonic clock.
        from_ns: u64, Nanoseconds;
        /// End of the interval; none while it lasts.
        to_ns: Option<u64>, Nanoseconds;
        /// The metric or track.
        track: Text, None;
        /// Why there is no value.
        reason: Text, None;
        /// How to fix it.
        hint: Option<Text>, None;
    }

    /// One reading of monotonic and wall time together.
    WallAnchorRow in WallAnchors = "wall_anchors" {
        /// The reading on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Wall time, nanoseconds since 1970.
        unix_ns: u64, Nanoseconds;
        /// Uncertainty of the wall time.
        error_ns: u64, Nanoseconds;
    }

    /// How far a ring of a channel was read. Later records were not stored before a crash; they are recovered from
    /// the ring when the recording is opened.
    ChannelPositionRow in ChannelPositions = "channel_positions" {
        /// When it was read, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// File name of the ring.
        ring: Text, None;
        /// Bytes of the ring that were read, since its start.
        position: u64, None;
    }

    /// A tick of a sampled table: a moment at which all its rows were read, changed or not.
    TickRow in Ticks = "ticks" {
        /// When, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Name of the sampled table.
        table: Text, None;
    }

    /// The first tick at which a sampled thing is gone (the process ended, the device was removed).
    SampleEndRow in SampleEnds = "sample_ends" {
        /// The first tick without it, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Name of the sampled table.
        table: Text, None;
        /// Values of its key columns as a JSON list.
        key: Text, None;
    }

    /// One node of a model's main graph reads what another one writes.
    GraphEdgeRow in GraphEdges = "graph_edges" {
        /// When it was found out, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Identifier of the session that ran the graph, as text.
        session_id: Text, None;
        /// Index of the node that writes, as in the table of operators.
        from_node: u64, Count;
        /// Index of the node that reads.
        to_node: u64, Count;
    }
}
