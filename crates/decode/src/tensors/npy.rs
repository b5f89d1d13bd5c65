//! numpy's `.npy`: a header that is a Python dictionary, followed by the elements.

use ortscope_core::tensor::{ElementType, Tensor, TensorData, element_count};

use super::{TensorError, TensorLimits};

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Layout of the elements in the file.
struct Layout {
    element: ElementType,
    /// Bytes per element; for text the length of the longest.
    width: u64,
    big_endian: bool,
    /// Unit of byte swapping: half an element for complex numbers.
    unit: usize,
}

pub fn read(bytes: &[u8], limits: &TensorLimits) -> Result<Tensor, TensorError> {
    let (header, data) = split(bytes)?;
    let header = Header::parse(header)?;
    let layout = layout(&header.descr)?;
    let elements =
        element_count(&header.shape).ok_or_else(|| TensorError::Shape(format!("{:?}", header.shape)))?;
    let expected = elements.checked_mul(layout.width);
    let expected = expected.ok_or_else(|| TensorError::Shape(format!("{:?}", header.shape)))?;
    if held_bytes(layout.element, elements, expected) > limits.max_bytes {
        return Err(TensorError::TooLarge { limit: limits.max_bytes });
    }
    let received = data.len() as u64;
    if received != expected {
        return Err(TensorError::Length { element: layout.element, dims: header.shape, expected, received });
    }
    let mut data = data.to_vec();
    if header.fortran_order && header.shape.len() > 1 {
        data = row_major(&data, &header.shape, layout.width);
    }
    if layout.big_endian && layout.unit > 1 {
        data.chunks_exact_mut(layout.unit).for_each(<[u8]>::reverse);
    }
    let data = match layout.element {
        ElementType::String => TensorData::Strings(strings(&data, &layout, elements)?),
        _ => TensorData::Bytes(data),
    };
    Ok(Tensor { element: layout.element, dims: header.shape, data })
}

/// Memory of an array: every text has a header, even if it has no bytes in the file.
pub(super) fn held_bytes(element: ElementType, elements: u64, bytes: u64) -> u64 {
    match element {
        ElementType::String => elements.saturating_mul(size_of::<String>() as u64).saturating_add(bytes),
        _ => bytes,
    }
}

/// Writes version 1.0. Text is written in numpy's `U`.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>, TensorError> {
    let (descr, data) = match &tensor.data {
        TensorData::Strings(strings) => {
            let width = strings.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
            let padded =
                strings.iter().flat_map(|text| text.chars().chain(std::iter::repeat('\0')).take(width));
            (format!("<U{width}"), padded.flat_map(|c| u32::from(c).to_le_bytes()).collect())
        }
        TensorData::Bytes(bytes) => {
            let descr = match tensor.element {
                ElementType::Bool => "|b1",
                ElementType::Int8 => "|i1",
                ElementType::Uint8 => "|u1",
                ElementType::Int16 => "<i2",
                ElementType::Uint16 => "<u2",
                ElementType::Int32 => "<i4",
                ElementType::Uint32 => "<u4",
                ElementType::Int64 => "<i8",
                ElementType::Uint64 => "<u8",
                ElementType::Float16 => "<f2",
                ElementType::Float32 => "<f4",
                ElementType::Float64 => "<f8",
                ElementType::Complex64 => "<c8",
                ElementType::Complex128 => "<c16",
                element => return Err(TensorError::NotInNumpy { element }),
            };
            (descr.to_owned(), bytes.clone())
        }
    };
    let dims: String = tensor.dims.iter().map(|dim| format!("{dim}, ")).collect();
    let shape = if tensor.dims.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Data begins at a multiple of 64, after magic, version, length and the final line feed.
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| TensorError::Shape(format!("{:?}", tensor.dims)))?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), &data].concat())
}

fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), TensorError> {
    let cut = || TensorError::NpyHeader("the file is cut off".to_owned());
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| TensorError::NpyHeader("it is not a numpy file".to_owned()))?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version {
        [1, _] => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        [2 | 3, _] => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut())?, rest)
        }
        [major, minor] => {
            return Err(TensorError::NpyHeader(format!("version {major}.{minor} is unknown")));
        }
    };
    rest.split_at_checked(length).ok_or_else(cut)
}

struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    /// The dictionary always has these three keys; numpy's writer fixes everything between them.
    fn parse(bytes: &[u8]) -> Result<Self, TensorError> {
        let bad = |what: &str| TensorError::NpyHeader(what.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not text"))?;
        let after = |key: &str| {
            let quoted =
                text.split_once(&format!("'{key}'")).or_else(|| text.split_once(&format!("\"{key}\"")));
            let value = quoted.and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
            value.map(str::trim_start).ok_or_else(|| bad(&format!("'{key}' is missing")))
        };
        let descr = after("descr")?;
        let Some(quote) = descr.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(TensorError::NpyType("record".to_owned()));
        };
        let descr = descr[1..].split(quote).next().unwrap_or_default().to_owned();
        let order = after("fortran_order")?;
        let fortran_order = match (order.starts_with("True"), order.starts_with("False")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err(bad("'fortran_order' is neither True nor False")),
        };
        let shape = after("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (shape, _) = shape.ok_or_else(|| bad("'shape' is not a tuple"))?;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape =
            sizes.map(|size| size.trim_end_matches('L').parse::<u64>()).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| bad("'shape' contains something other than sizes"))?;
        if shape.len() > 64 {
            return Err(bad("'shape' has more than 64 dimensions"));
        }
        Ok(Self { descr, fortran_order, shape })
    }
}

fn layout(descr: &str) -> Result<Layout, TensorError> {
    let unknown = || TensorError::NpyType(descr.to_owned());
    let (order, rest) = match descr.strip_prefix(['<', '>', '|', '=']) {
        Some(rest) => (&descr[..1], rest),
        None => ("<", descr),
    };
    let kind = rest.chars().next().ok_or_else(unknown)?;
    if kind == 'O' {
        return Err(TensorError::PythonObjects);
    }
    let size = rest.get(kind.len_utf8()..).ok_or_else(unknown)?;
    let width: u64 = size.parse().map_err(|_| unknown())?;
    let element = match (kind, width) {
        ('b', 1) => ElementType::Bool,
        ('i', 1) => ElementType::Int8,
        ('i', 2) => ElementType::Int16,
        ('i', 4) => ElementType::Int32,
        ('i', 8) => ElementType::Int64,
        ('u', 1) => ElementType::Uint8,
        ('u', 2) => ElementType::Uint16,
        ('u', 4) => ElementType::Uint32,
        ('u', 8) => ElementType::Uint64,
        ('f', 2) => ElementType::Float16,
        ('f', 4) => ElementType::Float32,
        ('f', 8) => ElementType::Float64,
        ('c', 8) => ElementType::Complex64,
        ('c', 16) => ElementType::Complex128,
        ('U' | 'S' | 'a', _) => ElementType::String,
        _ => return Err(unknown()),
    };
    let (width, unit) = match kind {
        'U' => (width.checked_mul(4).ok_or_else(unknown)?, 4),
        'S' | 'a' => (width, 1),
        'c' => (width, usize::try_from(width / 2).map_err(|_| unknown())?),
        _ => (width, usize::try_from(width).map_err(|_| unknown())?),
    };
    Ok(Layout { element, width, big_endian: order == ">", unit })
}

/// Elements from column-major to row-major order.
fn row_major(data: &[u8], shape: &[u64], width: u64) -> Vec<u8> {
    let mut result = Vec::with_capacity(data.len());
    let mut index = vec![0u64; shape.len()];
    let strides: Vec<u64> = shape
        .iter()
        .scan(width, |stride, dim| {
            let this = *stride;
            *stride = stride.saturating_mul(*dim);
            Some(this)
        })
        .collect();
    while result.len() < data.len() {
        let at: u64 = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        let element =
            usize::try_from(at).ok().and_then(|at| data.get(at..)?.get(..usize::try_from(width).ok()?));
        let Some(element) = element.filter(|element| !element.is_empty()) else {
            break;
        };
        result.extend_from_slice(element);
        for (i, dim) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    result
}

/// numpy pads text with NUL.
fn strings(data: &[u8], layout: &Layout, elements: u64) -> Result<Vec<String>, TensorError> {
    let bad = || TensorError::NpyHeader("an element is not text".to_owned());
    let width = usize::try_from(layout.width).map_err(|_| bad())?;
    if width == 0 {
        // No bytes bound this count, unlike all others.
        let count = usize::try_from(elements).ok().filter(|count| *count <= 1 << 20).ok_or_else(bad)?;
        return Ok(vec![String::new(); count]);
    }
    let text = |item: &[u8]| {
        if layout.unit == 1 {
            let end = item.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            return String::from_utf8(item[..end].to_vec()).ok();
        }
        let text: Option<String> =
            item.as_chunks::<4>().0.iter().map(|code| char::from_u32(u32::from_le_bytes(*code))).collect();
        text.map(|text| text.trim_end_matches('\0').to_owned())
    };
    data.chunks_exact(width).map(|item| text(item).ok_or_else(bad)).collect()
}
