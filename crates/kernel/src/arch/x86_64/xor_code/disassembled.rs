//! Tests of the assembler's code: an independent disassembler (iced-x86) decodes it, and it is
//! simulated on sets of buffers. Each sum must be right, and no other place may be written.
//!
//! Code runs from its first instruction to its last for one slice of one group, so no jump is
//! taken. The value of a vector is the set of those vectors of buffers whose sum it is.

use super::*;
use crate::sum_graph::tests::{dense, evaluated, steps};
use crate::sums::SharedSums;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A vector of a buffer: the index of the buffer, and the offset in bytes.
type Whose = (usize, i64);

/// The content of a general register or of a place on the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// The table of pointers to the buffers or columns.
    Table,
    Slots,
    /// A pointer into a buffer or column, at an offset in bytes.
    In(usize, i64),
    Number(i64),
    /// A value that does not affect the sums.
    Other,
}

#[derive(Default)]
struct Machine {
    general: HashMap<Register, Value>,
    vectors: HashMap<usize, BTreeSet<Whose>>,
    stack: Vec<Value>,
    /// The vectors that were stored, in buffers or columns and in slots.
    buffers: BTreeMap<Whose, BTreeSet<Whose>>,
    slots: BTreeMap<i64, BTreeSet<Whose>>,
    slots_bytes: i64,
}

impl Machine {
    fn value(&self, register: Register) -> Value {
        self.general.get(&register.full_register()).copied().unwrap_or(Value::Other)
    }

    /// Returns the base of an operand in memory, and the offset from it in bytes.
    fn address(&self, it: &Instruction) -> (Value, i64) {
        let index = match it.memory_index() {
            Register::None => 0,
            register => match self.value(register) {
                Value::Number(number) if it.memory_index_scale() == 1 => number,
                other => panic!("{it:?}: {other:?} is no index"),
            },
        };
        (self.value(it.memory_base()), index + it.memory_displacement64() as i64)
    }

    fn stack_place(&self, it: &Instruction) -> usize {
        self.stack.len() - 1 - it.memory_displacement64() as usize / 8
    }

    /// Returns the vector that an instruction reads.
    fn read(&self, it: &Instruction, operand: u32) -> BTreeSet<Whose> {
        if it.op_kind(operand) == OpKind::Register {
            return self.vectors[&it.op_register(operand).number()].clone();
        }
        match self.address(it) {
            (Value::In(buffer, start), at) => {
                let whose = (buffer, start + at);
                self.buffers.get(&whose).cloned().unwrap_or_else(|| BTreeSet::from([whose]))
            }
            (Value::Slots, at) => self.slots.get(&at).expect("a slot is written first").clone(),
            other => panic!("{it:?}: no vector is at {other:?}"),
        }
    }

    fn write(&mut self, it: &Instruction, sum: BTreeSet<Whose>) {
        if it.op_kind(0) == OpKind::Register {
            self.vectors.insert(it.op_register(0).number(), sum);
            return;
        }
        match self.address(it) {
            (Value::In(buffer, start), at) => drop(self.buffers.insert((buffer, start + at), sum)),
            (Value::Slots, at) => {
                assert!((0..self.slots_bytes).contains(&at), "{it:?}: no slot is there");
                self.slots.insert(at, sum);
            }
            other => panic!("{it:?}: no vector is stored at {other:?}"),
        }
    }

    /// Sets the general register, or the place on the stack, that an instruction writes.
    fn set(&mut self, it: &Instruction, value: Value) {
        match it.op_kind(0) {
            OpKind::Register => drop(self.general.insert(it.op_register(0).full_register(), value)),
            OpKind::Memory if it.memory_base() == Register::RSP => {
                let place = self.stack_place(it);
                self.stack[place] = value;
            }
            other => panic!("{it:?} writes {other:?}"),
        }
    }

    /// Returns the number or the pointer that an instruction reads.
    fn get(&self, it: &Instruction, operand: u32) -> Value {
        match it.op_kind(operand) {
            OpKind::Register => self.value(it.op_register(operand)),
            OpKind::Memory if it.memory_base() == Register::RSP => self.stack[self.stack_place(it)],
            OpKind::Memory => match self.address(it) {
                (Value::Table, at) => {
                    assert!(at.rem_euclid(8) == 0, "{it:?}: pointers are of 8 bytes");
                    Value::In(at as usize / 8, 0)
                }
                _ => Value::Other,
            },
            _ => Value::Number(it.immediate(operand) as i64),
        }
    }

    fn step(&mut self, it: &Instruction) {
        match it.mnemonic() {
            Mnemonic::Vmovdqu | Mnemonic::Vmovdqu64 | Mnemonic::Vmovdqa | Mnemonic::Vmovdqa64 => {
                self.write(it, self.read(it, 1));
            }
            Mnemonic::Vmovntdq => self.write(it, self.read(it, 1)),
            Mnemonic::Vpxor | Mnemonic::Vpxorq
                if it.op_kind(2) == OpKind::Register && it.op_register(1) == it.op_register(2) =>
            {
                self.write(it, BTreeSet::new());
            }
            Mnemonic::Vpxor | Mnemonic::Vpxorq => self.write(it, &self.read(it, 1) ^ &self.read(it, 2)),
            Mnemonic::Vpternlogq => {
                assert_eq!(it.immediate8(), 0x96, "a sum of three");
                self.write(it, &(&self.read(it, 0) ^ &self.read(it, 1)) ^ &self.read(it, 2));
            }
            Mnemonic::Mov => self.set(it, self.get(it, 1)),
            Mnemonic::Push => self.stack.push(self.get(it, 0)),
            Mnemonic::Pop => {
                let value = self.stack.pop().expect("what is popped was pushed");
                self.set(it, value);
            }
            Mnemonic::Add if it.op0_register() == Register::RSP => {
                let left = self.stack.len() - it.immediate(1) as usize / 8;
                self.stack.truncate(left);
            }
            Mnemonic::Add => self.set(
                it,
                match (self.get(it, 0), self.get(it, 1)) {
                    (Value::In(buffer, start), Value::Number(by)) => Value::In(buffer, start + by),
                    (Value::Number(number), Value::Number(by)) => Value::Number(number + by),
                    _ => Value::Other,
                },
            ),
            Mnemonic::Xor if it.op0_register() == it.op1_register() => self.set(it, Value::Number(0)),
            Mnemonic::Shr
            | Mnemonic::And
            | Mnemonic::Imul
            | Mnemonic::Lea
            | Mnemonic::Dec
            | Mnemonic::Sub => {
                self.set(it, Value::Other);
            }
            Mnemonic::Prefetcht0 | Mnemonic::Prefetcht1 | Mnemonic::Nop | Mnemonic::Cmp => {}
            Mnemonic::Jb | Mnemonic::Jne | Mnemonic::Vzeroupper | Mnemonic::Ret => {}
            other => panic!("{other:?} is no instruction of sums"),
        }
    }
}

/// Decodes the whole code, each instruction from the end of the one before.
fn decoded(code: &[u8]) -> Vec<Instruction> {
    let instructions: Vec<Instruction> = Decoder::new(64, code, DecoderOptions::NONE).iter().collect();
    assert!(instructions.iter().all(|it| !it.is_invalid()), "all bytes are instructions");
    let starts: BTreeSet<u64> = instructions.iter().map(Instruction::ip).collect();
    for it in instructions.iter().filter(|it| it.is_jcc_short_or_near()) {
        assert!(starts.contains(&it.near_branch_target()), "jumps lead to instructions");
    }
    let ends = |it: &Instruction| it.mnemonic() == Mnemonic::Ret;
    assert!(instructions.iter().position(ends) == Some(instructions.len() - 1), "it returns at its end");
    instructions
}

/// Checks that code computes the sums of some steps for one slice, and makes no other stores.
/// `cells` has, for each buffer in use, the index in the table of its buffer or column, and its
/// offset there.
fn check(
    steps: &[(usize, Vec<usize>)],
    form: Form,
    (slice, slots_bytes): (Slice, usize),
    cells: &[Whose],
    code: &[u8],
    begin: &[(Register, Value)],
) {
    let mut machine = Machine { slots_bytes: slots_bytes as i64, ..Machine::default() };
    machine.general.extend(begin.iter().copied());
    decoded(code).iter().for_each(|it| machine.step(it));
    assert!(machine.stack.is_empty(), "what was pushed is popped");
    let cell = |buffer: usize, at: usize| {
        let (whose, start) = cells[form.buffers().binary_search(&buffer).expect("a buffer in use")];
        (whose, start + at as i64)
    };
    let ats = || (0..slice.bytes()).step_by(slice.vectors.bytes());
    let wanted: BTreeMap<Whose, BTreeSet<Whose>> = evaluated(steps)
        .iter()
        .flat_map(|(&target, sum)| ats().map(move |at| (target, sum, at)))
        .map(|(target, sum, at)| (cell(target, at), sum.iter().map(|&buffer| cell(buffer, at)).collect()))
        .collect();
    assert_eq!(machine.buffers, wanted);
}

/// Returns programs of few and of many sums, sparse and dense, with and without sums that need
/// other sums.
fn corpus() -> Vec<Vec<(usize, Vec<usize>)>> {
    use crate::code::braid::tests::zig_zag;
    let zig_zags = [(2, 4), (5, 9), (13, 26), (15, 30), (23, 46)].map(|(n, links)| zig_zag(n, links));
    let mut wider = zig_zag(5, 9);
    wider.iter_mut().enumerate().for_each(|(i, step)| step.1.extend((0..3).map(|own| 100 + 3 * i + own)));
    let others = [wider, steps(4, 7, false), steps(10, 11, true), dense(4, 2, 4), dense(6, 3, 8)];
    zig_zags.into_iter().chain(others).collect()
}

#[test]
fn a_disassembler_finds_the_sums_of_a_braid_and_nothing_else() {
    for (steps, vectors) in corpus().iter().flat_map(|steps| [(steps, Vectors::Ymm), (steps, Vectors::Zmm)]) {
        let Some(braid) = Braid::new(&SharedSums::new(steps), vectors) else { continue };
        let form = Form::Braid(&braid);
        let cells: Vec<Whose> = (0..braid.buffers.len()).map(|place| (place, 0)).collect();
        let begin = [
            (Register::RDI, Value::Table),
            (Register::RSI, Value::Number(0)),
            (Register::RDX, Value::Number(form.slice().bytes() as i64)),
            (Register::RCX, Value::Slots),
        ];
        for code in [assemble(&braid, None), assemble(&braid, Some(fetched(&braid).0))] {
            check(steps, form, (form.slice(), form.slots_bytes()), &cells, &code, &begin);
        }
    }
}

#[test]
fn a_disassembler_finds_the_sums_in_columns_and_nothing_else() {
    let begin =
        [(Register::RDI, Value::Table), (Register::RSI, Value::Number(1)), (Register::RDX, Value::Slots)];
    for (steps, vectors) in corpus().iter().flat_map(|steps| [(steps, Vectors::Ymm), (steps, Vectors::Zmm)]) {
        let sums = SharedSums::new(steps);
        let (braid, straight) = (Braid::new(&sums, vectors), Straight::new(&sums, vectors));
        let forms = [braid.as_ref().map(Form::Braid), straight.as_ref().map(Form::Straight)];
        // All buffers in one column, in two, in so many that some are on the stack, and one column
        // for each buffer.
        for (form, count) in
            forms.into_iter().flatten().flat_map(|form| [1, 2, 17, usize::MAX].map(|count| (form, count)))
        {
            let buffers = form.buffers().len();
            let rows = buffers.div_ceil(count.min(buffers));
            let columns = |packet_bytes: usize| Columns {
                cells: (0..buffers).map(|place| (place / rows, place % rows)).collect(),
                rows: vec![rows; buffers.div_ceil(rows)],
                packet_bytes,
                fetch_step: None,
            };
            let cells_of = |packet_bytes: usize| -> Vec<Whose> {
                (0..buffers).map(|place| (place / rows, (place % rows * packet_bytes) as i64)).collect()
            };
            let slice = form.slice();
            let plain = assemble_columns(form, slice, &columns(slice.bytes()), None);
            check(steps, form, (slice, form.slots_bytes()), &cells_of(slice.bytes()), &plain, &begin);
            let lines = columns(slice.bytes().max(LINE));
            let slice = form.streaming_slice(&lines);
            let slots_bytes = form.streaming_slots_bytes(slice);
            let streaming = assemble_streaming(form, &lines);
            check(steps, form, (slice, slots_bytes), &cells_of(lines.packet_bytes), &streaming, &begin);
        }
    }
}
