//! Responses of AMD's NPU driver (`amdxdna`) to `DRM_IOCTL_AMDXDNA_GET_INFO`: sensors and process contexts.
//!
//! The structures are those of the kernel's `amdxdna_accel.h`: little-endian numbers and NUL-terminated texts in
//! fixed-size fields.

/// `DRM_AMDXDNA_QUERY_SENSORS`.
pub const QUERY_SENSORS: u32 = 4;
/// `DRM_AMDXDNA_QUERY_HW_CONTEXTS`.
pub const QUERY_CONTEXTS: u32 = 5;
/// Size of one sensor.
pub const SENSOR_BYTES: usize = 64 + 4 * 4 + 64 + 16 + 2 + 6;
/// Size of one context.
pub const CONTEXT_BYTES: usize = 4 * 4 + 6 * 8;

/// One sensor of an NPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    pub label: String,
    pub kind: SensorKind,
    /// In the unit of the kind: watts, or the fraction of busy column time.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SensorKind {
    PowerWatts,
    /// 0 to 1.
    ColumnUtilization,
    Other(u8),
}

/// A process's context on the NPU. Counts are since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    pub id: u32,
    pub first_column: u32,
    pub columns: u32,
    pub pid: i64,
    pub submissions: u64,
    pub completions: u64,
    pub migrations: u64,
    pub preemptions: u64,
    pub errors: u64,
}

/// Sensors of a response; trailing bytes are ignored.
pub fn sensors(answer: &[u8]) -> Vec<Sensor> {
    answer.chunks_exact(SENSOR_BYTES).filter_map(sensor).collect()
}

fn sensor(bytes: &[u8]) -> Option<Sensor> {
    let label = text(bytes.get(..64)?);
    let input = u32::from_le_bytes(bytes.get(64..68)?.try_into().ok()?);
    let units = text(bytes.get(144..160)?);
    let exponent = i32::from(i8::from_le_bytes([*bytes.get(160)?]));
    let scaled = f64::from(input) * 10f64.powi(exponent);
    let (kind, value) = match *bytes.get(161)? {
        // The driver reports milliwatts with the unit `mW` and additionally the power of ten that converts to
        // watts.
        0 if units.eq_ignore_ascii_case("mW") && matches!(exponent, 0 | -3) => {
            (SensorKind::PowerWatts, f64::from(input) / 1e3)
        }
        0 => (SensorKind::PowerWatts, scaled),
        1 => (SensorKind::ColumnUtilization, scaled / 100.0),
        other => (SensorKind::Other(other), scaled),
    };
    (value.is_finite() && !label.is_empty()).then_some(Sensor { label, kind, value })
}

/// Contexts of a response.
pub fn contexts(answer: &[u8]) -> Vec<Context> {
    answer.chunks_exact(CONTEXT_BYTES).filter_map(context).collect()
}

fn context(bytes: &[u8]) -> Option<Context> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(Context {
        id: word(0)?,
        first_column: word(4)?,
        columns: word(8)?,
        pid: long(16)?.cast_signed(),
        submissions: long(24)?,
        completions: long(32)?,
        migrations: long(40)?,
        preemptions: long(48)?,
        errors: long(56)?,
    })
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensor_bytes(label: &str, input: u32, units: &str, exponent: i8, kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; SENSOR_BYTES];
        bytes[..label.len()].copy_from_slice(label.as_bytes());
        bytes[64..68].copy_from_slice(&input.to_le_bytes());
        bytes[144..144 + units.len()].copy_from_slice(units.as_bytes());
        bytes[160] = exponent.to_le_bytes()[0];
        bytes[161] = kind;
        bytes
    }

    #[test]
    fn power_and_columns_are_parsed() {
        let mut answer = sensor_bytes("Total Power", 1500, "mW", 0, 0);
        answer.extend(sensor_bytes("Total Power", 1700, "mW", -3, 0));
        answer.extend(sensor_bytes("Total Power", 21, "W", -1, 0));
        answer.extend(sensor_bytes("Column 0 Utilization", 37, "%", 0, 1));
        answer.extend([1, 2, 3]);
        let found = sensors(&answer);
        let values: Vec<(SensorKind, f64)> =
            found.iter().map(|sensor| (sensor.kind, (sensor.value * 1e6).round() / 1e6)).collect();
        assert_eq!(
            values,
            [
                (SensorKind::PowerWatts, 1.5),
                (SensorKind::PowerWatts, 1.7),
                (SensorKind::PowerWatts, 2.1),
                (SensorKind::ColumnUtilization, 0.37)
            ]
        );
        assert_eq!(sensors(&[0; SENSOR_BYTES]), [], "a sensor without a name is ignored");
        assert_eq!(sensors(&[0; SENSOR_BYTES - 1]), []);
    }

    #[test]
    fn contexts_have_their_process() {
        let mut bytes = Vec::new();
        for word in [7_u32, 0, 4, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for long in [4321_u64, 100, 98, 1, 2, 0] {
            bytes.extend(long.to_le_bytes());
        }
        let found = contexts(&bytes);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].pid, found[0].columns, found[0].submissions, found[0].completions),
            (4321, 4, 100, 98)
        );
        assert_eq!(contexts(&bytes[..40]), []);
    }
}
