//! Driver queries for AMD NPUs.
#![expect(unsafe_code, reason = "the ioctl has no safe wrapper")]

use std::io;
use std::os::fd::AsRawFd as _;

/// `struct amdxdna_drm_get_info`.
#[repr(C)]
struct GetInfo {
    parameter: u32,
    bytes: u32,
    buffer: u64,
}

/// Opens AMD's NPU; the returned function sends one query and writes the response into a buffer.
pub fn amdxdna_query(file: &std::path::Path) -> io::Result<crate::devices::DriverQuery> {
    /// `DRM_IOCTL_AMDXDNA_GET_INFO`: reads and writes sixteen bytes, driver ioctl number 0x40 + 7.
    const GET_INFO: libc::Ioctl = 0xC010_6447_u32 as libc::Ioctl;
    let device = fs_err::File::options().read(true).write(true).open(file)?;
    Ok(Box::new(move |parameter, buffer| {
        let bytes = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let mut info = GetInfo { parameter, bytes, buffer: buffer.as_mut_ptr() as u64 };
        // SAFETY: the structure is live and has the sixteen bytes that the request encodes; its buffer is live,
        // writable and as long as stated, and the kernel writes plain bytes into it before the call returns.
        let answer = unsafe { libc::ioctl(device.as_raw_fd(), GET_INFO, &raw mut info) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok((info.bytes as usize).min(buffer.len())) }
    }))
}
