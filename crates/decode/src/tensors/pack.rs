//! Numbers as the bytes that ONNX Runtime takes: little endian, with types smaller than a byte packed from the low bits.

use half::{bf16, f16};
use ortscope_core::tensor::{ElementType, Tensor, TensorData};

use super::minifloat::{self, Encoder};

/// The value does not fit the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

/// Collects the elements of a tensor.
#[derive(Debug)]
pub struct Packer {
    element: ElementType,
    bytes: Vec<u8>,
    /// Bits used in the last byte, for types below a byte.
    used: u64,
    small: Option<Encoder>,
}

impl Packer {
    /// `None` for strings, which are not packed.
    pub fn new(element: ElementType) -> Option<Self> {
        element.bits()?;
        Some(Self { element, bytes: Vec::new(), used: 0, small: Encoder::new(element) })
    }

    /// Complex numbers get an imaginary part of 0.
    pub fn push_float(&mut self, value: f64) -> Result<(), OutOfRange> {
        // These types are meant for rounding to the nearest float.
        let single = value as f32;
        match self.element {
            ElementType::Float64 => self.bytes.extend(value.to_le_bytes()),
            ElementType::Float32 => self.bytes.extend(single.to_le_bytes()),
            ElementType::Float16 => self.bytes.extend(f16::from_f64(value).to_le_bytes()),
            ElementType::BFloat16 => self.bytes.extend(bf16::from_f64(value).to_le_bytes()),
            ElementType::Complex64 => self.bytes.extend([single.to_le_bytes(), [0; 4]].as_flattened()),
            ElementType::Complex128 => self.bytes.extend([value.to_le_bytes(), [0; 8]].as_flattened()),
            _ => match &self.small {
                Some(encoder) => {
                    let code = encoder.encode(single).ok_or(OutOfRange)?;
                    self.push_bits(code);
                }
                None if value.fract() == 0.0 && value.abs() < 9.0e18 => self.push_int(value as i128)?,
                None => return Err(OutOfRange),
            },
        }
        Ok(())
    }

    pub fn push_int(&mut self, value: i128) -> Result<(), OutOfRange> {
        macro_rules! exact {
            ($int:ty) => {
                self.bytes.extend(<$int>::try_from(value).map_err(|_| OutOfRange)?.to_le_bytes())
            };
        }
        match self.element {
            ElementType::Uint8 => exact!(u8),
            ElementType::Int8 => exact!(i8),
            ElementType::Uint16 => exact!(u16),
            ElementType::Int16 => exact!(i16),
            ElementType::Uint32 => exact!(u32),
            ElementType::Int32 => exact!(i32),
            ElementType::Uint64 => exact!(u64),
            ElementType::Int64 => exact!(i64),
            ElementType::Bool if (0..2).contains(&value) => exact!(u8),
            ElementType::Uint4 => self.push_small_int(value, 0, 15)?,
            ElementType::Int4 => self.push_small_int(value, -8, 7)?,
            ElementType::Uint2 => self.push_small_int(value, 0, 3)?,
            ElementType::Int2 => self.push_small_int(value, -2, 1)?,
            ElementType::Bool | ElementType::String => return Err(OutOfRange),
            _ => self.push_float(value as f64)?,
        }
        Ok(())
    }

    fn push_small_int(&mut self, value: i128, min: i128, max: i128) -> Result<(), OutOfRange> {
        if !(min..=max).contains(&value) {
            return Err(OutOfRange);
        }
        let code = u8::try_from(value & (max - min)).map_err(|_| OutOfRange)?;
        self.push_bits(code);
        Ok(())
    }

    fn push_bits(&mut self, code: u8) {
        let bits = self.element.bits().unwrap_or(8);
        match self.bytes.last_mut() {
            Some(last) if bits < 8 && self.used < 8 => *last |= code << self.used,
            _ => {
                self.bytes.push(code);
                self.used = 0;
            }
        }
        self.used += bits;
    }

    /// The tensor; its shape must match the number of pushed elements.
    pub fn finish(self, dims: Vec<u64>) -> Tensor {
        Tensor { element: self.element, dims, data: TensorData::Bytes(self.bytes) }
    }
}

/// The elements as numbers, for inspection; `None` for strings and complex numbers.
pub fn numbers(tensor: &Tensor) -> Option<Vec<f64>> {
    let TensorData::Bytes(bytes) = &tensor.data else {
        return None;
    };
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Option<Vec<f64>> {
        Some(bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect())
    }
    match tensor.element {
        ElementType::Float32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        ElementType::Float64 => each(bytes, f64::from_le_bytes),
        ElementType::Float16 => each(bytes, |b| f16::from_le_bytes(b).to_f64()),
        ElementType::BFloat16 => each(bytes, |b| bf16::from_le_bytes(b).to_f64()),
        ElementType::Uint8 | ElementType::Bool => each(bytes, |b| f64::from(u8::from_le_bytes(b))),
        ElementType::Int8 => each(bytes, |b| f64::from(i8::from_le_bytes(b))),
        ElementType::Uint16 => each(bytes, |b| f64::from(u16::from_le_bytes(b))),
        ElementType::Int16 => each(bytes, |b| f64::from(i16::from_le_bytes(b))),
        ElementType::Uint32 => each(bytes, |b| f64::from(u32::from_le_bytes(b))),
        ElementType::Int32 => each(bytes, |b| f64::from(i32::from_le_bytes(b))),
        ElementType::Uint64 => each(bytes, |b| u64::from_le_bytes(b) as f64),
        ElementType::Int64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        ElementType::String | ElementType::Complex64 | ElementType::Complex128 => None,
        element => {
            let (bits, elements) = (element.bits()?, tensor.elements()?);
            let per_byte = 8 / bits;
            let codes = bytes.iter().flat_map(|byte| (0..per_byte).map(move |slot| byte >> (slot * bits)));
            let mask = u8::try_from((1u64 << bits) - 1).ok()?;
            let all = codes.take(usize::try_from(elements).ok()?).map(|code| small(element, code & mask));
            all.collect()
        }
    }
}

fn small(element: ElementType, code: u8) -> Option<f64> {
    let signed = |bits: u32| f64::from((code << (8 - bits)).cast_signed() >> (8 - bits));
    match element {
        ElementType::Uint4 | ElementType::Uint2 => Some(f64::from(code)),
        ElementType::Int4 => Some(signed(4)),
        ElementType::Int2 => Some(signed(2)),
        _ => minifloat::decode(element, code).map(f64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(element: ElementType, values: &[f64]) -> Vec<u8> {
        let mut packer = Packer::new(element).unwrap();
        values.iter().for_each(|value| packer.push_float(*value).unwrap());
        match packer.finish(vec![values.len() as u64]).data {
            TensorData::Bytes(bytes) => bytes,
            TensorData::Strings(_) => panic!("strings"),
        }
    }

    #[test]
    fn known_bytes() {
        assert_eq!(pack(ElementType::Float16, &[1.0]), [0x00, 0x3c]);
        assert_eq!(pack(ElementType::BFloat16, &[1.0]), [0x80, 0x3f]);
        assert_eq!(pack(ElementType::Int4, &[1.0, -1.0, 7.0]), [0xf1, 0x07]);
        assert_eq!(pack(ElementType::Uint2, &[3.0, 0.0, 1.0, 2.0, 3.0]), [0b10_01_00_11, 0b11]);
        assert_eq!(pack(ElementType::Float4E2M1, &[6.0, -0.5]), [0b1001_0111]);
        assert_eq!(pack(ElementType::Float8E4M3Fn, &[1.0, -448.0]), [0x38, 0xfe]);
        assert_eq!(pack(ElementType::Complex64, &[1.0]), [0, 0, 0x80, 0x3f, 0, 0, 0, 0]);
    }

    #[test]
    fn numbers_round_trip() {
        for element in ortscope_core::tensor::ELEMENT_TYPES {
            let values = [0.0, 1.0, 1.0];
            let Some(mut packer) = Packer::new(element) else {
                continue;
            };
            if matches!(element, ElementType::Complex64 | ElementType::Complex128 | ElementType::Float8E8M0) {
                continue;
            }
            values.iter().for_each(|value| packer.push_float(*value).unwrap());
            assert_eq!(numbers(&packer.finish(vec![3])), Some(values.to_vec()), "{element}");
        }
        let mut packer = Packer::new(ElementType::Int4).unwrap();
        packer.push_int(-8).unwrap();
        assert_eq!(numbers(&packer.finish(vec![1])), Some(vec![-8.0]));
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        for (element, value) in
            [(ElementType::Uint8, 256.0), (ElementType::Int64, 0.5), (ElementType::Bool, 2.0)]
        {
            assert_eq!(Packer::new(element).unwrap().push_float(value), Err(OutOfRange), "{element} {value}");
        }
        assert_eq!(Packer::new(ElementType::Uint4).unwrap().push_int(16), Err(OutOfRange));
        assert!(Packer::new(ElementType::String).is_none());
    }
}
