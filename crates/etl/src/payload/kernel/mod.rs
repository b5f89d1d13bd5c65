//! Kernel events: their layouts are fixed, so each has a type, with every version and both pointer sizes.
//!
//! [`KernelPayload::decode`] converts a record to its body; [`KernelPayload::visit`] shows all of its fields. Neither
//! allocates. The same events arrive as classic ones from other loggers and are decoded alike.

mod config;
mod field;
mod header;
mod io;
mod merged;
mod names;
mod network;
mod power;
mod process;
mod scheduling;
mod stack;

pub use config::*;
pub use field::{Addresses, Bytes, FileTime, FixedWide, Flags, Owner, Pointer, Port, ProcessId, Word};
pub use header::*;
pub use io::*;
pub use merged::*;
pub use names::{
    IMAGE_ID_CLASS, LOST_EVENT_CLASS, METADATA_CLASS, PERF_INFO_CLASS, SYSTEM_CONFIG_EX_CLASS, class_of_hook,
    classic_name, hook_name, hook_of_class,
};
pub use network::*;
pub use power::*;
pub use process::*;
pub use scheduling::*;
pub use stack::*;

use field::Record;

use crate::payload::{Cursor, PayloadError, Visitor};
use crate::{Classic, EventRecord, Hook, Identity, PointerSize};

/// A decoded kernel event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelPayload<'a> {
    pub body: KernelBody<'a>,
    /// Task and opcode, such as `Process/Start`.
    pub name: &'static str,
    /// `None` for events that merging tools add, which have a class and no hook.
    pub hook: Option<Hook>,
    pub version: u16,
    /// The event's version is newer than all known ones; it was decoded as the newest known, and more fields may
    /// follow.
    pub newer_than_known: bool,
    /// Bytes after the last known field.
    pub left_over: &'a [u8],
}

macro_rules! bodies {
    ($($variant:ident($type:ty)),* $(,)?) => {
        /// The fields of a kernel event.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum KernelBody<'a> {
            $($variant($type),)*
            Network(Network),
            Config(Config<'a>),
            /// Events without fields.
            Empty,
        }

        impl KernelBody<'_> {
            fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
                match self {
                    $(Self::$variant(body) => body.visit(visitor),)*
                    Self::Network(network) => network.visit(visitor),
                    Self::Config(config) => config.visit(visitor),
                    Self::Empty => {}
                }
            }
        }
    };
}

bodies! {
    LogfileHeader(LogfileHeader<'a>), HeaderExtension(HeaderExtension), PartitionInfo(PartitionInfo<'a>),
    LoggerPdb(LoggerPdb<'a>), LoggerText(LoggerText<'a>),
    Process(Process<'a>), ProcessTerminate(ProcessTerminate), ProcessCounters(ProcessCounters),
    Thread(Thread<'a>), ThreadV0(ThreadV0), ThreadName(ThreadName<'a>),
    Image(Image<'a>), ImageAddress(ImageAddress),
    ContextSwitch(ContextSwitch), CompactContextSwitches(CompactContextSwitches<'a>), ReadyThread(ReadyThread),
    SampledProfile(SampledProfile), ProfileInterval(ProfileInterval<'a>),
    CounterSample(CounterSample), CounterConfig(CounterConfig<'a>), CounterCorruption(CounterCorruption<'a>),
    Dpc(Dpc), Interrupt(Interrupt<'a>), SystemCallEnter(SystemCallEnter), SystemCallExit(SystemCallExit),
    StackWalk(StackWalk<'a>), StackKey(StackKey), StackDefinition(StackDefinition<'a>),
    SoftFault(SoftFault), HardFault(HardFault), VirtualMemory(VirtualMemory),
    DiskTransfer(DiskTransfer), DiskStart(DiskStart), DiskFlush(DiskFlush),
    FileName(FileName<'a>), FileCreate(FileCreate<'a>), FileSimple(FileSimple), FileTransfer(FileTransfer),
    FileInformation(FileInformation), FileDirectory(FileDirectory<'a>), FileEnd(FileEnd),
    NetworkFailure(NetworkFailure),
    IdleStateChange(IdleStateChange), PerfStateChange(PerfStateChange), ThermalConstraint(ThermalConstraint),
    IdleStateEnter(IdleStateEnter), IdleStateExit(IdleStateExit), IdleExitLatency(IdleExitLatency),
    ImageId(ImageId<'a>), ImageRsds(ImageRsds<'a>), ImageMark(ImageMark), ImageDebugData(ImageDebugData<'a>),
    ImageFailure(ImageFailure<'a>), ImageFileVersion(ImageFileVersion<'a>),
    BuildInfo(BuildInfo<'a>), SystemPaths(SystemPaths<'a>), UnknownVolume(UnknownVolume<'a>),
    VolumeMapping(VolumeMapping<'a>), SystemConfigData(SystemConfigData<'a>), Mark(Mark<'a>),
    LostEvents(LostEvents<'a>),
}

impl<'a> KernelPayload<'a> {
    /// Decodes a kernel event, or a classic event of a known class.
    pub fn decode(record: &EventRecord<'a>) -> Result<Self, PayloadError> {
        match record.identity {
            Identity::Kernel { hook, version } => {
                Self::decode_hook(hook, version, record.pointer_size, record.payload)
            }
            Identity::Classic(classic) => Self::decode_classic(&classic, record.pointer_size, record.payload),
            _ => Err(PayloadError::NotKernel),
        }
    }

    /// The same from its parts, for payloads without their record.
    pub fn decode_hook(
        hook: Hook,
        version: u16,
        pointer_size: PointerSize,
        payload: &'a [u8],
    ) -> Result<Self, PayloadError> {
        let name = hook_name(hook).ok_or(PayloadError::UnknownHook { hook: hook.0, version })?;
        let mut reader = Reader::new(payload, pointer_size, version, name);
        let mut keep = Keep(KernelBody::Empty);
        reader.hook(hook, &mut keep)?;
        Ok(reader.finish(keep.0, Some(hook)))
    }

    fn decode_classic(
        classic: &Classic,
        pointer_size: PointerSize,
        payload: &'a [u8],
    ) -> Result<Self, PayloadError> {
        let unknown =
            PayloadError::UnknownClass { class: classic.class, kind: classic.kind, version: classic.version };
        let mut reader =
            Reader::new(payload, pointer_size, classic.version, classic_name(classic).ok_or(unknown)?);
        let mut keep = Keep(KernelBody::Empty);
        let hook = reader.classic(classic, &mut keep)?;
        Ok(reader.finish(keep.0, hook))
    }

    /// Decodes and shows in one step, which is faster if only the fields matter. Returns the number of decoded
    /// bytes.
    pub fn visit_record<V: Visitor + ?Sized>(
        record: &EventRecord<'a>,
        visitor: &mut V,
    ) -> Result<usize, PayloadError> {
        let (payload, pointer_size) = (record.payload, record.pointer_size);
        let mut out = Show(visitor);
        let reader = match record.identity {
            Identity::Kernel { hook, version } => {
                let name = hook_name(hook).ok_or(PayloadError::UnknownHook { hook: hook.0, version })?;
                let mut reader = Reader::new(payload, pointer_size, version, name);
                reader.hook(hook, &mut out)?;
                reader
            }
            Identity::Classic(classic) => {
                let Classic { class, kind, version, .. } = classic;
                let name =
                    classic_name(&classic).ok_or(PayloadError::UnknownClass { class, kind, version })?;
                let mut reader = Reader::new(payload, pointer_size, version, name);
                reader.classic(&classic, &mut out)?;
                reader
            }
            _ => return Err(PayloadError::NotKernel),
        };
        Ok(reader.cursor.position())
    }

    /// Shows every field, in payload order.
    pub fn visit<V: Visitor + ?Sized>(&self, visitor: &mut V) {
        self.body.visit(visitor);
    }
}

/// What to do with a body: keep it as a value, or show it at once, which avoids moving the large body.
trait Output<'a> {
    fn take<R: Record<'a>>(&mut self, body: R, wrap: fn(R) -> KernelBody<'a>);
}

struct Keep<'a>(KernelBody<'a>);

impl<'a> Output<'a> for Keep<'a> {
    fn take<R: Record<'a>>(&mut self, body: R, wrap: fn(R) -> KernelBody<'a>) {
        self.0 = wrap(body);
    }
}

struct Show<'v, V: ?Sized>(&'v mut V);

impl<'a, V: Visitor + ?Sized> Output<'a> for Show<'_, V> {
    fn take<R: Record<'a>>(&mut self, body: R, _wrap: fn(R) -> KernelBody<'a>) {
        body.visit(self.0);
    }
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    version: u16,
    name: &'static str,
}

impl<'a> Reader<'a> {
    fn new(payload: &'a [u8], pointer_size: PointerSize, version: u16, name: &'static str) -> Self {
        Self { cursor: Cursor::new(payload, pointer_size, version), version, name }
    }

    /// Reads a body of the versions `oldest..=newest`; a newer one is read as the newest.
    #[inline]
    fn body<R: Record<'a>>(
        &mut self,
        out: &mut impl Output<'a>,
        oldest: u16,
        newest: u16,
        wrap: fn(R) -> KernelBody<'a>,
    ) -> Result<(), PayloadError> {
        if self.version < oldest {
            return Err(PayloadError::UnknownVersion { name: self.name, version: self.version, newest });
        }
        self.cursor.version = self.version.min(newest);
        match R::read(&mut self.cursor) {
            Ok(body) => out.take(body, wrap),
            Err(_) if self.version > newest => {
                return Err(PayloadError::UnknownVersion { name: self.name, version: self.version, newest });
            }
            Err(short) => {
                return Err(PayloadError::TooShort { name: self.name, version: self.version, at: short.at });
            }
        }
        Ok(())
    }

    fn hook(&mut self, hook: Hook, out: &mut impl Output<'a>) -> Result<(), PayloadError> {
        use KernelBody as B;
        match hook.0 {
            0x0000 => self.body(out, 0, 2, B::LogfileHeader),
            0x0005 | 0x0020 => self.body(out, 0, 2, B::HeaderExtension),
            0x0008 => Ok(()),
            0x0040 => self.body(out, 0, 2, B::LoggerPdb),
            0x0042 | 0x0043 => self.body(out, 0, 2, B::LoggerText),
            0x0050 => self.body(out, 0, 2, B::PartitionInfo),
            0x010a | 0x010b => self.body(out, 2, 3, B::DiskTransfer),
            0x010c | 0x010d | 0x010f => self.body(out, 2, 3, B::DiskStart),
            0x010e => self.body(out, 2, 3, B::DiskFlush),
            0x020a..=0x020f => self.body(out, 2, 2, B::SoftFault),
            0x0220 => self.body(out, 2, 2, B::HardFault),
            0x0262 | 0x0263 | 0x0280 | 0x0281 => self.body(out, 2, 2, B::VirtualMemory),
            0x0301..=0x0304 | 0x0327 => self.body(out, 0, 5, B::Process),
            0x030a | 0x1402..=0x1404 => self.body(out, 0, 3, B::Image),
            0x030b => self.body(out, 2, 2, B::ProcessTerminate),
            0x0320 | 0x0321 => self.body(out, 2, 2, B::ProcessCounters),
            0x0400 | 0x0420 | 0x0423 | 0x0424 => self.body(out, 0, 2, B::FileName),
            0x0440 => self.body(out, 2, 3, B::FileCreate),
            0x0441 | 0x0442 | 0x0449 => self.body(out, 2, 3, B::FileSimple),
            0x0443 | 0x0444 => self.body(out, 2, 3, B::FileTransfer),
            0x0445..=0x0447 | 0x044a | 0x044b => self.body(out, 2, 3, B::FileInformation),
            0x0448 | 0x044d => self.body(out, 2, 3, B::FileDirectory),
            0x044c => self.body(out, 2, 3, B::FileEnd),
            0x0501..=0x0504 if self.version == 0 => self.body(out, 0, 0, B::ThreadV0),
            0x0501..=0x0504 => self.body(out, 1, 4, B::Thread),
            0x0524 => self.body(out, 1, 4, B::ContextSwitch),
            0x0525 => self.body(out, 2, 2, B::CompactContextSwitches),
            0x0532 => self.body(out, 2, 2, B::ReadyThread),
            0x0548 => self.body(out, 2, 2, B::ThreadName),
            0x060a => self.body(out, 2, 2, |body| B::Network(Network::SendV4(body))),
            0x061a => self.body(out, 2, 2, |body| B::Network(Network::SendV6(body))),
            0x060c | 0x060f => self.body(out, 2, 2, |body| B::Network(Network::ConnectV4(body))),
            0x061c | 0x061f => self.body(out, 2, 2, |body| B::Network(Network::ConnectV6(body))),
            0x0611 | 0x0811 => self.body(out, 2, 2, B::NetworkFailure),
            0x060b | 0x060d | 0x060e | 0x0610 | 0x0612 | 0x080a | 0x080b => {
                self.body(out, 2, 2, |body| B::Network(Network::TransferV4(body)))
            }
            0x061b | 0x061d | 0x061e | 0x0620 | 0x0622 | 0x081a | 0x081b => {
                self.body(out, 2, 2, |body| B::Network(Network::TransferV6(body)))
            }
            0x0b0a => self.body(out, 2, 3, |body| B::Config(Config::Cpu(body))),
            0x0b0b => self.body(out, 2, 2, |body| B::Config(Config::PhysicalDisk(body))),
            0x0b0c => self.body(out, 2, 2, |body| B::Config(Config::LogicalDisk(body))),
            0x0b0d => self.body(out, 2, 2, |body| B::Config(Config::NetworkCard(body))),
            0x0b0e => self.body(out, 2, 2, |body| B::Config(Config::Video(body))),
            0x0b0f => self.body(out, 2, 3, |body| B::Config(Config::Service(body))),
            0x0b10 => self.body(out, 2, 2, |body| B::Config(Config::Power(body))),
            0x0b11 => self.body(out, 2, 2, |body| B::Config(Config::Network(body))),
            0x0b12 => self.body(out, 2, 2, |body| B::Config(Config::OpticalMedia(body))),
            0x0b15 => self.body(out, 2, 3, |body| B::Config(Config::Irq(body))),
            0x0b16 => self.body(out, 2, 5, |body| B::Config(Config::PlugAndPlay(body))),
            0x0b17 => self.body(out, 2, 2, |body| B::Config(Config::IdeChannel(body))),
            0x0b18 => self.body(out, 2, 2, |body| B::Config(Config::Numa(body))),
            0x0b19 => self.body(out, 2, 2, |body| B::Config(Config::Platform(body))),
            0x0b1a => self.body(out, 2, 2, |body| B::Config(Config::ProcessorGroups(body))),
            0x0b1b => self.body(out, 2, 2, |body| B::Config(Config::ProcessorNumbers(body))),
            0x0b1c => self.body(out, 2, 2, |body| B::Config(Config::Dpi(body))),
            0x0b1d => self.body(out, 2, 2, |body| B::Config(Config::CodeIntegrity(body))),
            0x0b1e => self.body(out, 2, 2, |body| B::Config(Config::MachineId(body))),
            0x0b21 => self.body(out, 2, 2, |body| B::Config(Config::DeviceFamily(body))),
            0x0b22 => self.body(out, 2, 2, |body| B::Config(Config::Flights(body))),
            0x0b23 => self.body(out, 2, 2, |body| B::Config(Config::Processor(body))),
            0x0b24 => self.body(out, 2, 2, |body| B::Config(Config::Virtualization(body))),
            0x0b25 => self.body(out, 2, 2, |body| B::Config(Config::Boot(body))),
            0x0f2e => self.body(out, 2, 2, B::SampledProfile),
            0x0f2f => self.body(out, 2, 2, B::CounterSample),
            0x0f30 => self.body(out, 2, 2, B::CounterConfig),
            0x0f31 => self.body(out, 2, 2, B::CounterCorruption),
            0x0f32 | 0x0f43 => self.body(out, 2, 2, B::Interrupt),
            0x0f33 => self.body(out, 2, 2, B::SystemCallEnter),
            0x0f34 => self.body(out, 2, 2, B::SystemCallExit),
            0x0f42 | 0x0f44 | 0x0f45 => self.body(out, 1, 2, B::Dpc),
            0x0f48..=0x0f4a => self.body(out, 2, 3, B::ProfileInterval),
            0x1233 | 0x1234 => self.body(out, 2, 2, B::PerfStateChange),
            0x1235 => self.body(out, 2, 2, B::IdleStateChange),
            0x1236 => self.body(out, 2, 2, B::ThermalConstraint),
            0x1239 => self.body(out, 2, 2, B::IdleStateEnter),
            0x123a => self.body(out, 2, 2, B::IdleStateExit),
            0x123c => self.body(out, 2, 2, B::IdleExitLatency),
            0x1421 | 0x1422 => self.body(out, 2, 2, B::ImageAddress),
            0x1820 => self.body(out, 2, 2, B::StackWalk),
            0x1822..=0x1824 => self.body(out, 2, 2, B::StackDefinition),
            0x1825 | 0x1826 => self.body(out, 2, 2, B::StackKey),
            other => Err(PayloadError::UnknownHook { hook: other, version: self.version }),
        }
    }

    /// The hook, if the class is one of the kernel's.
    fn classic(
        &mut self,
        classic: &Classic,
        out: &mut impl Output<'a>,
    ) -> Result<Option<Hook>, PayloadError> {
        use KernelBody as B;
        match (classic.class, classic.kind) {
            (IMAGE_ID_CLASS, 0) => self.body(out, 0, 2, B::ImageId)?,
            (IMAGE_ID_CLASS, 32 | 40) => self.body(out, 0, 2, B::ImageMark)?,
            (IMAGE_ID_CLASS, 34 | 38 | 39) => self.body(out, 0, 2, B::ImageDebugData)?,
            (IMAGE_ID_CLASS, 36 | 37) => self.body(out, 0, 2, B::ImageRsds)?,
            (IMAGE_ID_CLASS, 41) => self.body(out, 0, 1, B::ImageFailure)?,
            (IMAGE_ID_CLASS, 64) => self.body(out, 0, 0, B::ImageFileVersion)?,
            (SYSTEM_CONFIG_EX_CLASS, 32) => self.body(out, 0, 0, B::BuildInfo)?,
            (SYSTEM_CONFIG_EX_CLASS, 33) => self.body(out, 0, 0, B::SystemPaths)?,
            (SYSTEM_CONFIG_EX_CLASS, 34) => self.body(out, 0, 0, B::UnknownVolume)?,
            (SYSTEM_CONFIG_EX_CLASS, 35) => self.body(out, 0, 0, B::VolumeMapping)?,
            (SYSTEM_CONFIG_EX_CLASS, 36 | 37) => self.body(out, 0, 0, B::SystemConfigData)?,
            (LOST_EVENT_CLASS, 32..=34) => self.body(out, 0, 2, B::LostEvents)?,
            (PERF_INFO_CLASS, 34) => self.body(out, 0, 0, B::Mark)?,
            (class, kind) => {
                let hook = hook_of_class(class, kind).ok_or(PayloadError::UnknownClass {
                    class,
                    kind,
                    version: self.version,
                })?;
                self.hook(hook, out)?;
                return Ok(Some(hook));
            }
        }
        Ok(None)
    }

    fn finish(self, body: KernelBody<'a>, hook: Option<Hook>) -> KernelPayload<'a> {
        KernelPayload {
            body,
            name: self.name,
            hook,
            version: self.version,
            newer_than_known: self.version > self.cursor.version,
            left_over: self.cursor.rest(),
        }
    }
}
