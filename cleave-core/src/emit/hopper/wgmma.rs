//! Wrappers of the instructions that a translation unit uses: one for each number of columns, type, and place of the left operand.
use crate::dtype::DType;
use std::collections::BTreeSet;
use std::fmt::Write;

/// `wgmma.mma_async` of 64 rows, `columns` columns and 16 of the contracted dim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instruction {
    pub columns: u32,
    pub dtype: DType,
    /// The left operand is in registers, else in shared memory.
    pub registers: bool,
}

/// The numbers of columns that the instruction takes for 16-bit types.
pub fn takes(columns: u32) -> bool {
    columns.is_multiple_of(8) && (8..=256).contains(&columns)
}

/// The wrappers, to stand between the PTX primitives and what calls them.
pub fn wrappers(instructions: &BTreeSet<Instruction>) -> String {
    let mut text = String::from("#ifndef CLEAVE_EMULATED\nnamespace cleave {\n");
    for i in instructions {
        let n = i.columns / 2;
        let t = if i.dtype == DType::F16 { "f16" } else { "bf16" };
        let list = (0..n).map(|r| format!("%{r}")).collect::<Vec<_>>().join(",");
        let registers = (0..n).map(|r| format!("\"+f\"(d[{}][{}])", r / 4, r % 4)).collect::<Vec<_>>().join(", ");
        let name = format!("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{t}.{t}", i.columns);
        let mut w = |s: String| writeln!(text, "{s}").expect("a string takes all text");
        if i.registers {
            w(format!("template <bool BMN> CLEAVE_DEVICE void wgmma(float (&d)[{}][4], const u32 (&a)[4], u64 b, int add, {t}) {{", i.columns / 8));
            w(format!("  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"", n + 5));
            w(format!("    \"{name} {{{list}}}, {{%{},%{},%{},%{}}}, %{}, p, 1, 1, %{};\\n}}\\n\"", n, n + 1, n + 2, n + 3, n + 4, n + 6));
            w(format!("    : {registers} : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), \"r\"(add), \"n\"(BMN));"))
        } else {
            w(format!("template <bool AMN, bool BMN> CLEAVE_DEVICE void wgmma(float (&d)[{}][4], u64 a, u64 b, int add, {t}) {{", i.columns / 8));
            w(format!("  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"", n + 2));
            w(format!("    \"{name} {{{list}}}, %{}, %{}, p, 1, 1, %{}, %{};\\n}}\\n\"", n, n + 1, n + 3, n + 4));
            w(format!("    : {registers} : \"l\"(a), \"l\"(b), \"r\"(add), \"n\"(AMN), \"n\"(BMN));"))
        }
        w("}".into())
    }
    text + "} // namespace cleave\n#endif\n"
}
