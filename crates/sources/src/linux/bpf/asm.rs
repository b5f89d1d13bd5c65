//! A small BPF assembler with named registers and labels.
//!
//! The programs have only a few dozen instructions; assembling them for the running kernel, with offsets from its BTF,
//! replaces a C compiler, an ELF loader and relocations.

/// A register. R0 returns values, R1 to R5 pass arguments and are clobbered by calls, R6 to R9 are preserved, R10 is the
/// stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reg {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
}

/// Width of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    U8,
    U32,
    U64,
}

impl Width {
    fn bits(self) -> u8 {
        match self {
            Self::U8 => 0x10,
            Self::U32 => 0x00,
            Self::U64 => 0x18,
        }
    }
}

/// In the kernel's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// Kernel functions with fixed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    MapLookup = 1,
    /// The monotonic clock.
    KtimeGetNs = 5,
    SmpProcessorId = 8,
    /// Process id in the upper half, thread id in the lower half.
    CurrentPidTgid = 14,
    /// R1 map, R2 key, R3 value, R4 flags.
    MapUpdate = 2,
    MapDelete = 3,
    /// Copies kernel memory: R1 destination, R2 bytes, R3 source. Unreadable memory gives zeros.
    ReadKernel = 113,
    /// Copies memory of the current process.
    ReadUser = 112,
    /// User registers of a thread at kernel entry: R1 thread.
    TaskRegisters = 175,
    /// The current thread.
    CurrentTask = 158,
    /// Copies a kernel string: R1 destination, R2 maximum number of bytes, R3 source.
    ReadKernelText = 115,
}

#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places the label here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn push(&mut self, opcode: u8, to: Reg, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { opcode, registers: to as u8 | (from << 4), offset, immediate });
    }

    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.push(0x61 | width.bits(), to, from as u8, offset, 0);
    }

    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(0x63 | width.bits(), to, from as u8, offset, 0);
    }

    pub fn store_immediate(&mut self, width: Width, to: Reg, offset: i16, value: i32) {
        self.push(0x62 | width.bits(), to, 0, offset, value);
    }

    pub fn mov(&mut self, to: Reg, from: Reg) {
        self.push(0xbf, to, from as u8, 0, 0);
    }

    pub fn mov_immediate(&mut self, to: Reg, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    pub fn add(&mut self, to: Reg, from: Reg) {
        self.push(0x0f, to, from as u8, 0, 0);
    }

    pub fn add_immediate(&mut self, to: Reg, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    pub fn sub(&mut self, to: Reg, from: Reg) {
        self.push(0x1f, to, from as u8, 0, 0);
    }

    pub fn and_immediate(&mut self, to: Reg, value: i32) {
        self.push(0x57, to, 0, 0, value);
    }

    pub fn or(&mut self, to: Reg, from: Reg) {
        self.push(0x4f, to, from as u8, 0, 0);
    }

    pub fn or_immediate(&mut self, to: Reg, value: i32) {
        self.push(0x47, to, 0, 0, value);
    }

    pub fn shift_left(&mut self, to: Reg, bits: i32) {
        self.push(0x67, to, 0, 0, bits);
    }

    pub fn shift_right(&mut self, to: Reg, bits: i32) {
        self.push(0x77, to, 0, 0, bits);
    }

    /// Atomically adds to memory and loads the previous value into `amount`.
    pub fn fetch_add(&mut self, to: Reg, offset: i16, amount: Reg) {
        self.push(0xdb, to, amount as u8, offset, 0x01);
    }

    /// Atomically adds to memory.
    pub fn atomic_add(&mut self, to: Reg, offset: i16, amount: Reg) {
        self.push(0xdb, to, amount as u8, offset, 0x00);
    }

    /// Stores with release semantics. On x86 every store has them; elsewhere this is an exchange, which every kernel
    /// with atomics supports.
    pub fn store_release(&mut self, to: Reg, offset: i16, from: Reg) {
        if cfg!(target_arch = "x86_64") {
            self.store(Width::U64, to, offset, from);
        } else {
            self.push(0xdb, to, from as u8, offset, 0xe1);
        }
    }

    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, Reg::R0, 0, 0, 0);
    }

    pub fn jump_if_zero(&mut self, value: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x15, value, 0, 0, 0);
    }

    pub fn jump_if_not_zero(&mut self, value: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x55, value, 0, 0, 0);
    }

    pub fn jump_if_equal(&mut self, value: Reg, to_value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x15, value, 0, 0, to_value);
    }

    pub fn jump_if_not_equal(&mut self, value: Reg, to_value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x55, value, 0, 0, to_value);
    }

    pub fn jump_if_negative(&mut self, value: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0xc5, value, 0, 0, 0);
    }

    /// Compares the lower halves.
    pub fn jump_if_half_not_equal(&mut self, value: Reg, to_value: u32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x56, value, 0, 0, to_value as i32);
    }

    /// Unsigned.
    pub fn jump_if_below(&mut self, value: Reg, limit: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0xa5, value, 0, 0, limit);
    }

    /// Compares two registers.
    pub fn jump_if_different(&mut self, value: Reg, other: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x5d, value, other as u8, 0, 0);
    }

    /// Compares two registers.
    pub fn jump_if_same(&mut self, value: Reg, other: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x1d, value, other as u8, 0, 0);
    }

    /// Unsigned comparison of two registers.
    pub fn jump_unless_above(&mut self, value: Reg, other: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0xbd, value, other as u8, 0, 0);
    }

    /// Unsigned.
    pub fn jump_if_above(&mut self, value: Reg, limit: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x25, value, 0, 0, limit);
    }

    pub fn call(&mut self, helper: Helper) {
        self.push(0x85, Reg::R0, 0, 0, helper as i32);
    }

    /// Calls a kernel function by its BTF id.
    pub fn call_kernel(&mut self, function: u32) {
        self.push(0x85, Reg::R0, 2, 0, function as i32);
    }

    pub fn load_map(&mut self, to: Reg, map: i32) {
        self.push(0x18, to, 1, 0, map);
        self.push(0x00, Reg::R0, 0, 0, 0);
    }

    pub fn exit(&mut self) {
        self.push(0x95, Reg::R0, 0, 0, 0);
    }

    /// Resolves all jumps; `None` if a label was never placed or is too far away, which the tests of each program
    /// would show.
    pub fn finish(mut self) -> Option<Vec<Instruction>> {
        for (at, label) in &self.jumps {
            let target = self.labels.get(label.0).copied().flatten()?;
            let distance = i64::try_from(target).ok()? - i64::try_from(*at).ok()? - 1;
            self.code[*at].offset = i16::try_from(distance).ok()?;
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_reach_their_labels() {
        let mut code = Assembler::default();
        let (top, end) = (code.label(), code.label());
        code.place(top);
        code.jump_if_zero(Reg::R3, end);
        code.jump(top);
        code.place(end);
        code.exit();
        let program = code.finish().unwrap();
        assert_eq!(program.iter().map(|instruction| instruction.offset).collect::<Vec<_>>(), [1, -2, 0]);
        assert_eq!(program[0].registers, 3);
    }

    #[test]
    fn an_unplaced_label_is_rejected() {
        let mut code = Assembler::default();
        let nowhere = code.label();
        code.jump(nowhere);
        assert!(code.finish().is_none());
    }

    #[test]
    fn loads_and_stores_have_the_kernels_encoding() {
        let mut code = Assembler::default();
        code.load(Width::U64, Reg::R2, Reg::R1, 8);
        code.store(Width::U32, Reg::R10, -4, Reg::R2);
        code.load(Width::U8, Reg::R3, Reg::R6, 1);
        let program = code.finish().unwrap();
        let fields = |at: usize| (program[at].opcode, program[at].registers, program[at].offset);
        assert_eq!(fields(0), (0x79, 0x12, 8));
        assert_eq!(fields(1), (0x63, 0x2a, -4));
        assert_eq!(fields(2), (0x71, 0x63, 1));
    }
}
