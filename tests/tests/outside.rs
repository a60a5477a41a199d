//! A crate outside this workspace: with a build script of one line, kernels in its library, binary, tests and examples are compiled and run.
mod foreign;

use foreign::{Crate, text};
use std::fs;

const KERNEL: &str = r#"
#[cleave::kernel(dtypes(T = f32))]
pub fn NAME<T>(x: Tensor<T, M, K>, w: Tensor<T, K, N>) -> Tensor<T, M, N> {
    sum::<K>(x * w) OPERATION
}

pub fn NAME_of_ones() -> Vec<f32> {
    let x = cleave::Tensor::<f32>::from_fn(&[2, 3], |_| 1.0).unwrap();
    let w = cleave::Tensor::<f32>::from_fn(&[3, 2], |i| i[1] as f32).unwrap();
    NAME(&x, &w).run().unwrap().to_vec().unwrap()
}
"#;

fn kernel(name: &str, operation: &str) -> String {
    KERNEL.replace("NAME", name).replace("OPERATION", operation)
}

#[test]
fn a_foreign_crate_needs_a_dependency_and_one_line() {
    let foreign = Crate::new("foreign", true);
    foreign.write("src/lib.rs", &kernel("library", ""));
    foreign.write("src/main.rs", &(kernel("binary", "* 2.0") + "fn main() {\n    println!(\"{:?} {:?}\", foreign::library_of_ones(), binary_of_ones())\n}\n"));
    foreign.write("tests/test.rs", &(kernel("tested", "* 3.0") + "#[test]\nfn it_runs() {\n    assert_eq!(tested_of_ones(), [0.0, 9.0, 0.0, 9.0])\n}\n"));
    foreign.write("examples/shown.rs", &(kernel("example", "* 4.0") + "fn main() {\n    println!(\"{:?}\", example_of_ones())\n}\n"));

    let ran = foreign.cargo(&["run"]);
    assert!(text(&ran).contains("[0.0, 3.0, 0.0, 3.0] [0.0, 6.0, 0.0, 6.0]"), "{}", text(&ran));
    let tested = foreign.cargo(&["test", "--test", "test"]);
    assert!(tested.status.success() && text(&tested).contains("it_runs ... ok"), "{}", text(&tested));
    let shown = foreign.cargo(&["run", "--example", "shown"]);
    assert!(text(&shown).contains("[0.0, 12.0, 0.0, 12.0]"), "{}", text(&shown));

    // nothing is compiled anew where the kernels are the same
    foreign.write("src/lib.rs", &(String::from("//! Changed.\n") + &kernel("library", "")));
    let again = foreign.cargo(&["build"]);
    let cached = text(&again).lines().filter(|l| l.contains("cached")).count();
    foreign.write("src/lib.rs", &kernel("library", ""));
    assert!(again.status.success() && cached == 4, "{}", text(&again));

    // a kernel at fault is reported at its place, by the macro
    foreign.write("examples/wrong.rs", &(kernel("wrong", "+ missing") + "fn main() {}\n"));
    let wrong = foreign.cargo(&["build", "--example", "wrong"]);
    fs::remove_file(foreign.directory.join("examples/wrong.rs")).unwrap();
    assert!(
        !wrong.status.success() && text(&wrong).contains("`missing` is not known here") && text(&wrong).contains("examples/wrong.rs:4"),
        "{}",
        text(&wrong)
    );
}

#[test]
fn a_crate_without_a_build_script_is_told_the_lines_to_add() {
    let bare = Crate::new("bare", false);
    bare.write("src/lib.rs", &kernel("library", ""));
    let built = bare.cargo(&["build"]);
    let said = text(&built);
    assert!(!built.status.success() && said.contains("[build-dependencies]") && said.contains("cleave::build()"), "{said}");
}
