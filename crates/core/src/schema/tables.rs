//! The declarations. A new kind of data starts here.

use super::{Cell, Column, ColumnDef, Row, TableDef, Text, Unit, declare_tables};

declare_tables! {
    /// One finished inference, of whatever program.
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
        /// Phase of the measurement: first, steady, prefill or token.
        phase: Text, None;
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

    /// A sample of one process.
    ProcessSampleRow in ProcessSamples = "process_samples" {
        /// When the sample was taken, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Process id.
        pid: u64, None;
        /// Start time of the process in the system's unit: with the id it names the process.
        process_start: u64, None;
        /// CPU time used since the process started.
        cpu_time_ns: u64, Nanoseconds;
        /// Resident memory now (rss, working set).
        working_set_bytes: u64, Bytes;
        /// Highest resident memory so far.
        peak_working_set_bytes: Option<u64>, Bytes;
        /// Memory that belongs to this process alone.
        private_bytes: Option<u64>, Bytes;
        /// Threads alive.
        thread_count: Option<u64>, Count;
    }

    /// Something happened that is worth a mark on the time line.
    AnnotationRow in Annotations = "annotations" {
        /// When, on the monotonic clock.
        timestamp_ns: u64, Nanoseconds;
        /// Kind of the mark, e.g. session_created, log, stop.
        kind: Text, None;
        /// What happened, in words or as JSON.
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
        /// What the user can do.
        hint: Option<Text>, None;
    }
}
