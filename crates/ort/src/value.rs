//! ONNX Runtime's values, to and from ours.
#![expect(unsafe_code, reason = "creates C values and reads their memory")]

use std::ptr;

use ort_sys as sys;
use ortscope_core::tensor::{ElementType, Tensor, TensorData, Value, element_count};

use crate::api::Api;
use crate::handle::Handle;
use crate::{OrtError, Runtime, element, signature, text};

/// A value owned by ONNX Runtime.
#[derive(Debug)]
pub struct OrtValue {
    api: Api,
    handle: Handle<sys::OrtValue>,
}

/// The type and shape of a tensor that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub element: ElementType,
    pub dims: Vec<u64>,
}

impl TensorInfo {
    /// Bytes of the payload; `None` for strings.
    pub fn byte_len(&self) -> Option<usize> {
        usize::try_from(self.element.bytes_for(element_count(&self.dims)?)?).ok()
    }
}

impl OrtValue {
    /// Copies a value into ONNX Runtime's CPU memory.
    pub fn from_value(runtime: &Runtime, value: &Value) -> Result<Self, OrtError> {
        let api = runtime.api();
        match value {
            Value::Tensor(tensor) => Self::from_tensor(api, tensor),
            Value::Sequence(items) => {
                let items = items
                    .iter()
                    .map(|item| Self::from_value(runtime, item))
                    .collect::<Result<Vec<_>, _>>()?;
                Self::container(api, &items, sys::ONNXType::ONNX_TYPE_SEQUENCE)
            }
            Value::Map { keys, values } => {
                let parts = [Self::from_tensor(api, keys)?, Self::from_tensor(api, values)?];
                Self::container(api, &parts, sys::ONNXType::ONNX_TYPE_MAP)
            }
        }
    }

    fn from_tensor(api: Api, tensor: &Tensor) -> Result<Self, OrtError> {
        let mut value = Self::uninitialized(api, tensor.element, &tensor.dims)?;
        match &tensor.data {
            TensorData::Bytes(bytes) => {
                let target = value.bytes_mut()?;
                if target.len() != bytes.len() {
                    return Err(OrtError::Unsupported(format!(
                        "a {} tensor of shape {:?} has {} bytes, but {} were given",
                        tensor.element,
                        tensor.dims,
                        target.len(),
                        bytes.len()
                    )));
                }
                target.copy_from_slice(bytes);
            }
            TensorData::Strings(strings) => value.fill_strings(strings, &tensor.dims)?,
        }
        Ok(value)
    }

    /// A CPU tensor of zeros (or empty strings).
    pub fn zeroed(runtime: &Runtime, element: ElementType, dims: &[u64]) -> Result<Self, OrtError> {
        let mut value = Self::uninitialized(runtime.api(), element, dims)?;
        if element != ElementType::String {
            value.bytes_mut()?.fill(0);
        }
        Ok(value)
    }

    /// A tensor with undefined content; callers overwrite all of it.
    fn uninitialized(api: Api, element: ElementType, dims: &[u64]) -> Result<Self, OrtError> {
        let allocator = text::default_allocator(api)?;
        let signed = dims.iter().map(|dim| i64::try_from(*dim)).collect::<Result<Vec<_>, _>>();
        let (Ok(shape), Some(_)) = (signed, element_count(dims)) else {
            return Err(OrtError::Unsupported(format!("a tensor of shape {dims:?} is too large")));
        };
        // SAFETY: the allocator is ONNX Runtime's own and never released; the shape outlives the call.
        let handle = unsafe {
            create!(
                api,
                CreateTensorAsOrtValue(
                    allocator,
                    shape.as_ptr(),
                    shape.len(),
                    element::to_create(element, api.minor())
                ),
                ReleaseValue
            )
        }?;
        Ok(Self { api, handle })
    }

    fn fill_strings(&mut self, strings: &[String], dims: &[u64]) -> Result<(), OrtError> {
        if element_count(dims) != Some(strings.len() as u64) {
            return Err(OrtError::Unsupported(format!(
                "{} strings do not fill the shape {dims:?}",
                strings.len()
            )));
        }
        for (index, string) in strings.iter().enumerate() {
            let mut buffer = ptr::null_mut();
            // Unlike FillStringTensor this takes a length, so that strings may contain NUL.
            // SAFETY: the tensor is ours and contains strings; the buffer has the requested length.
            unsafe {
                call!(
                    self.api,
                    GetResizedStringTensorElementBuffer(self.as_ptr(), index, string.len(), &raw mut buffer)
                )?;
                ptr::copy_nonoverlapping(string.as_ptr(), buffer.cast(), string.len());
            }
        }
        Ok(())
    }

    fn container(api: Api, items: &[Self], kind: sys::ONNXType) -> Result<Self, OrtError> {
        let pointers: Vec<*const sys::OrtValue> =
            items.iter().map(|item| item.as_ptr().cast_const()).collect();
        // SAFETY: the items are alive during the call, which takes its own references to them.
        let handle =
            unsafe { create!(api, CreateValue(pointers.as_ptr(), pointers.len(), kind), ReleaseValue) }?;
        Ok(Self { api, handle })
    }

    /// # Safety
    /// `pointer` is null or a value that is not released elsewhere.
    pub(crate) unsafe fn from_raw(
        api: Api,
        function: &'static str,
        pointer: *mut sys::OrtValue,
    ) -> Result<Self, OrtError> {
        // SAFETY: the slot exists in every version; ownership by this function's contract.
        let handle = unsafe { Handle::new(function, pointer, slot!(api, ReleaseValue)?) }?;
        Ok(Self { api, handle })
    }

    /// Type and shape, if this is a dense tensor.
    pub fn tensor_info(&self) -> Result<Option<TensorInfo>, OrtError> {
        if self.kind()? != sys::ONNXType::ONNX_TYPE_TENSOR as i32 {
            return Ok(None);
        }
        // SAFETY: the value is alive and a tensor; the description is released by its handle.
        unsafe {
            let info =
                create!(self.api, GetTensorTypeAndShape(self.as_ptr()), ReleaseTensorTypeAndShapeInfo)?;
            let element = signature::tensor_element(self.api, info.as_ptr())?.map_err(|code| {
                OrtError::Unsupported(format!("a tensor of the unknown element type {code}"))
            })?;
            let dims = signature::dimensions(self.api, info.as_ptr())?;
            Ok(Some(TensorInfo {
                element,
                dims: dims.into_iter().map(|dim| u64::try_from(dim).unwrap_or(0)).collect(),
            }))
        }
    }

    /// Whether a dense tensor's memory can be read by the CPU.
    pub fn is_on_cpu(&self) -> Result<bool, OrtError> {
        let (mut memory, mut device) = (ptr::null(), 0i32);
        // SAFETY: the value is alive; the memory description belongs to it; the enum is written as its integer.
        unsafe {
            call!(self.api, GetTensorMemoryInfo(self.as_ptr(), &raw mut memory))?;
            call_plain!(self.api, MemoryInfoGetDeviceType(memory, (&raw mut device).cast()))?;
        }
        Ok(device == sys::OrtMemoryInfoDeviceType::OrtMemoryInfoDeviceType_CPU as i32)
    }

    /// The payload of a dense tensor of numbers in CPU memory.
    pub fn bytes(&self) -> Result<&[u8], OrtError> {
        let (data, len) = self.payload()?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: ONNX Runtime holds `len` initialized bytes there as long as the value lives, and changes to them need
        // `&mut self` or a run that the caller arranges.
        Ok(unsafe { std::slice::from_raw_parts(data, len) })
    }

    pub fn bytes_mut(&mut self) -> Result<&mut [u8], OrtError> {
        let (data, len) = self.payload()?;
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `bytes`, and `&mut self` is the only way to this memory. Fresh tensors are not initialized, but
        // every bit pattern is a valid byte, and ONNX Runtime's allocator hands out ordinary memory.
        Ok(unsafe { std::slice::from_raw_parts_mut(data, len) })
    }

    /// Address and length of the payload.
    pub(crate) fn payload(&self) -> Result<(*mut u8, usize), OrtError> {
        let info =
            self.tensor_info()?.ok_or_else(|| OrtError::Unsupported("not a dense tensor".to_owned()))?;
        let len =
            info.byte_len().ok_or_else(|| OrtError::Unsupported("strings have no flat memory".to_owned()))?;
        if !self.is_on_cpu()? {
            return Err(OrtError::Unsupported("the tensor is in device memory".to_owned()));
        }
        let mut data = ptr::null_mut();
        // SAFETY: the value is alive and a tensor.
        unsafe { call!(self.api, GetTensorMutableData(self.as_ptr(), &raw mut data)) }?;
        Ok((data.cast(), len))
    }

    /// Copies the value out.
    pub fn to_value(&self) -> Result<Value, OrtError> {
        let mut present = 0;
        // SAFETY: the value is alive.
        unsafe { call!(self.api, HasValue(self.as_ptr(), &raw mut present)) }?;
        if present == 0 {
            return Err(OrtError::Unsupported("an optional output without a value".to_owned()));
        }
        match self.kind()? {
            1 => Ok(Value::Tensor(self.to_tensor()?)),
            2 => {
                let items = (0..self.item_count()?).map(|index| self.item(index)?.to_value());
                Ok(Value::Sequence(items.collect::<Result<_, _>>()?))
            }
            3 => Ok(Value::Map { keys: self.item(0)?.to_tensor()?, values: self.item(1)?.to_tensor()? }),
            5 => Err(OrtError::Unsupported("sparse tensors cannot be copied out".to_owned())),
            other => Err(OrtError::Unsupported(format!("values of kind {other} cannot be copied out"))),
        }
    }

    fn to_tensor(&self) -> Result<Tensor, OrtError> {
        let info =
            self.tensor_info()?.ok_or_else(|| OrtError::Unsupported("not a dense tensor".to_owned()))?;
        let data = match info.element {
            ElementType::String => TensorData::Strings(self.strings(&info)?),
            _ => TensorData::Bytes(self.bytes()?.to_vec()),
        };
        Ok(Tensor { element: info.element, dims: info.dims, data })
    }

    fn strings(&self, info: &TensorInfo) -> Result<Vec<String>, OrtError> {
        let count = element_count(&info.dims).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut len = 0usize;
        let mut offsets = vec![0usize; count];
        // SAFETY: the value is alive and contains `count` strings of `len` bytes in total; both buffers are large
        // enough.
        let content = unsafe {
            call!(self.api, GetStringTensorDataLength(self.as_ptr(), &raw mut len))?;
            let mut content = vec![0u8; len];
            call!(
                self.api,
                GetStringTensorContent(
                    self.as_ptr(),
                    content.as_mut_ptr().cast(),
                    len,
                    offsets.as_mut_ptr(),
                    count
                )
            )?;
            content
        };
        let ends = offsets.iter().skip(1).copied().chain([len]);
        let string =
            |(start, end)| String::from_utf8_lossy(content.get(start..end).unwrap_or_default()).into_owned();
        Ok(offsets.iter().copied().zip(ends).map(string).collect())
    }

    fn kind(&self) -> Result<i32, OrtError> {
        let mut kind = 0i32;
        // SAFETY: the value is alive; the enum is written as its integer.
        unsafe { call!(self.api, GetValueType(self.as_ptr(), (&raw mut kind).cast())) }?;
        Ok(kind)
    }

    fn item_count(&self) -> Result<usize, OrtError> {
        let mut count = 0;
        // SAFETY: the value is alive.
        unsafe { call!(self.api, GetValueCount(self.as_ptr(), &raw mut count)) }?;
        Ok(count)
    }

    fn item(&self, index: usize) -> Result<Self, OrtError> {
        let allocator = text::default_allocator(self.api)?;
        let index =
            i32::try_from(index).map_err(|_| OrtError::Unsupported("too long a sequence".to_owned()))?;
        // SAFETY: the value is alive; the item is a value of its own, released by its handle.
        let handle = unsafe { create!(self.api, GetValue(self.as_ptr(), index, allocator), ReleaseValue) }?;
        Ok(Self { api: self.api, handle })
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut sys::OrtValue {
        self.handle.as_ptr()
    }
}
