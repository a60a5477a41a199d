//! Text of a generated function: indented lines, names that cannot clash, and the words of a launch's argument.
use crate::plan::Word;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines with indentation.
#[derive(Clone, Default)]
pub struct Code {
    text: String,
    depth: usize,
}

impl Code {
    pub fn at(depth: usize) -> Self {
        Code { text: String::new(), depth }
    }
    pub fn line(&mut self, line: impl AsRef<str>) {
        writeln!(self.text, "{:width$}{}", "", line.as_ref(), width = 2 * self.depth).expect("a string takes all text")
    }
    /// A line that opens a block.
    pub fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1
    }
    pub fn close(&mut self, line: &str) {
        self.depth -= 1;
        self.line(line)
    }
    pub fn depth(&self) -> usize {
        self.depth
    }
    pub fn append(&mut self, other: &Code) {
        self.text.push_str(&other.text)
    }
    pub fn text(&self) -> &str {
        &self.text
    }
    pub fn map(&self, f: impl FnOnce(&str) -> String) -> Code {
        Code { text: f(&self.text), depth: self.depth }
    }
}

const RESERVED: &str = " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const constexpr continue decltype default \
delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or \
or_eq private protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this throw \
true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq cleave p i j c h e r k x f inner outer group in_group group_rows tile masked piece pieces item half shared next turn one warpgroup steps step last cut blocks block j staged claimed visits arrived chunk all at before block_at claims counters fetch first first_block \
part partial partials pieces_of_part policy stage start states tiles theirs mine other values warp_column warp_loop warp_number warp_row limit s mask key next_full before_step frame_step mine_step other_step \
sinh cosh exp log tanh sqrt abs min max printf threadIdx blockIdx blockDim gridDim warpSize ";

/// A user's name as a C++ identifier.
pub fn identifier(name: &str) -> String {
    let mut s: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_string() } else { format!("u{:x}", c as u32) }).collect();
    if s.is_empty() || s.starts_with(|c: char| c.is_ascii_digit()) || s.starts_with('_') {
        s.insert(0, 'v')
    }
    while s.contains("__") {
        s = s.replace("__", "_u_")
    }
    if RESERVED.contains(&format!(" {s} ")) { format!("{s}_") } else { s }
}

/// The words of a launch in the order of first use, and, for the part at hand, the constants that name them.
#[derive(Default)]
pub struct Words {
    list: RefCell<Vec<Word>>,
    constants: RefCell<BTreeMap<usize, String>>,
}

impl Words {
    pub fn index(&self, word: Word) -> usize {
        let mut list = self.list.borrow_mut();
        list.iter().position(|w| *w == word).unwrap_or_else(|| {
            list.push(word);
            list.len() - 1
        })
    }
    /// Declares a constant of the part for a word: `declare` makes the declaration from the word's text.
    pub fn constant(&self, word: Word, declare: impl Fn(&str) -> String) {
        let i = self.index(word);
        self.constants.borrow_mut().entry(i).or_insert_with(|| declare(&format!("p.w[{i}]")));
    }
    /// The declarations of the part at hand, which ends with this call.
    pub fn take_constants(&self) -> Vec<String> {
        std::mem::take(&mut *self.constants.borrow_mut()).into_values().collect()
    }
    pub fn into_list(self) -> Vec<Word> {
        self.list.into_inner()
    }
    pub fn count(&self) -> usize {
        self.list.borrow().len()
    }
}

/// A number as a float literal that reads back to the same bits.
pub fn literal(x: f64) -> String {
    let x = x as f32;
    if x.is_nan() {
        "cleave::not_a_number()".into()
    } else if x.is_infinite() {
        format!("{}cleave::infinity()", if x < 0.0 { "-" } else { "" })
    } else if x < 0.0 {
        format!("({x:?}f)")
    } else {
        format!("{x:?}f")
    }
}
