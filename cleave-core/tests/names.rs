//! What the emitter calls its own values, and what users call theirs.
mod support;
use cleave_core::device::Target;
use cleave_core::dtype::DType;
use cleave_core::emit::{self, code::identifier};
use cleave_core::kernel::Kernel;

/// Names that the emitter declares itself: what follows a type, or is a parameter of a lambda, and has nothing of the user's in it.
fn own_names(kernel: &Kernel, source: &str) -> Vec<String> {
    let text = &source[source.find("// grid:").unwrap_or(0)..];
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let g = &kernel.graph;
    let users: Vec<&str> = g.inputs.iter().map(|i| &*i.name).chain(g.outputs.iter().map(|o| &*o.name)).chain(g.axes.iter().map(|a| &*a.name)).collect();
    let types = ["int", "float", "bool", "auto", "u32", "u64", "i64"];
    let made = |w: &str| {
        w.split('_').any(|p| users.contains(&p))
            || w.starts_with("workspace")
            || w.trim_start_matches(['t', 'w', 'x']).starts_with(|c: char| c.is_ascii_digit())
    };
    let declared = words.windows(2).filter(|w| types.contains(&w[0]) && !types.contains(&w[1])).map(|w| w[1]);
    declared.filter(|w| !made(w) && !w.starts_with(|c: char| c.is_ascii_digit())).map(str::to_string).collect()
}

#[test]
fn no_name_of_a_users_is_one_that_the_emitter_declares() {
    let mut open = std::collections::BTreeSet::new();
    for kernel in support::corpus() {
        let (_, programs) = support::programs(&kernel);
        let types = vec![DType::BF16; kernel.params.len()];
        for target in [Target::Portable, Target::Hopper] {
            for (_, source) in emit::instance(&kernel, &types, &programs, target).1 {
                open.extend(
                    own_names(&kernel, &source)
                        .into_iter()
                        .filter(|n| identifier(n.trim_end_matches(|c: char| c.is_ascii_digit())) == n.trim_end_matches(|c: char| c.is_ascii_digit())),
                )
            }
        }
    }
    // the words of a launch are a member; what ends with an underscore is what no name of a user's becomes unless it is reserved itself
    open.remove("w");
    open.retain(|n| !n.ends_with('_') && n.rsplit('_').next().is_none_or(|last| last.parse::<u32>().is_err()));
    assert!(open.is_empty(), "{open:?}")
}
