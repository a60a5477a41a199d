//! Stand-in until the executor lands.
use cleave_core::tile::Program;
pub struct Decoded {
    pub program: Program,
}
impl Decoded {
    pub fn new(program: &Program) -> Decoded {
        Decoded { program: program.clone() }
    }
}
