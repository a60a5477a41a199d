//! What the documentation of a kernel says beside the user's own words: its axes, its formula, the algorithms that the build found.
use crate::dtype::{DType, Element};
use crate::graph::{Access, Factor};
use crate::kernel::{Algorithm, Kernel};
use crate::show;

/// Markdown, a line each.
pub fn lines(kernel: &Kernel, algorithms: &[Algorithm]) -> Vec<String> {
    let g = &kernel.graph;
    let holds = |a: &Access, axis| a.dims.iter().flatten().any(|f| *f == Factor::Axis(axis));
    let mut out: Vec<String> = ["", "# Axes", "", "| axis | of | |", "| --- | --- | --- |"].map(String::from).to_vec();
    for axis in g.all_axes() {
        let inputs = g.inputs.iter().filter(|i| holds(&i.storage, axis) || i.extent == Some(axis)).map(|i| format!("`{}`", i.name));
        let outputs = g.outputs.iter().filter(|o| holds(&o.storage, axis) && o.in_place.is_none()).map(|o| format!("`{}`", o.name));
        let bound = kernel.bounds.iter().find(|b| b.0 == axis).map_or(String::new(), |b| format!("at most {}", b.1));
        out.push(format!("| `{}` | {} | {bound} |", g.axis(axis), inputs.chain(outputs).collect::<Vec<_>>().join(", ")))
    }
    for p in &kernel.params {
        let types: Vec<String> = p.types.iter().map(|t: &DType| format!("`{t}`")).collect();
        out.extend([String::new(), format!("`{}` is {}.", p.name, types.join(" or "))])
    }
    let mixed = g.inputs.iter().any(|i| i.element == Element::Type(DType::I32) && !i.storage.dims.is_empty());
    if mixed {
        out.extend([String::new(), "Integer tensors serve in conditions.".into()])
    }
    for a in &kernel.assertions {
        out.extend([String::new(), format!("A call is an error unless `{}`.", a.condition)])
    }
    for a in &kernel.assumptions {
        let message = a.message.as_ref().map_or(String::new(), |m| format!(" ({m})"));
        out.extend([String::new(), format!("Callers promise that `{}`{message}.", a.statement)])
    }
    section(&mut out, "Formula", &show::lines(g));
    for a in algorithms.iter().skip(1) {
        let promises: Vec<&str> = a.assumptions.iter().filter_map(|i| Some(kernel.assumptions.get(*i as usize)?.statement.as_str())).collect();
        let under = if promises.is_empty() { String::new() } else { format!(", if {}", promises.join(" and ")) };
        section(&mut out, &format!("Algorithm: {}{under}", a.name), &show::lines(&a.graph))
    }
    out
}

fn section(out: &mut Vec<String>, title: &str, lines: &[String]) {
    out.extend([String::new(), format!("# {title}"), "```text".into()]);
    out.extend_from_slice(lines);
    out.push("```".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_shows_its_axes_its_formula_and_its_algorithms() {
        let text = "#[kernel(dtypes(T = f16, f32), bound(D <= 64))] fn rows<T>(x: Tensor<T, M, (H, D)>, head: Extent<D>) -> Tensor<f32, M> {
            assert!(head % 2 == 0);
            sum::<(H, D)>(x * 2.0)
        }";
        let kernel = super::super::from_source(text).unwrap().remove(0);
        let other = Algorithm { name: "another".into(), graph: kernel.graph.clone(), cost: Default::default(), derivation: vec![], assumptions: vec![] };
        let algorithms = [Algorithm { name: "source".into(), ..other.clone() }, other];
        let want = "
# Axes

| axis | of | |
| --- | --- | --- |
| `M` | `x`, `output` |  |
| `H` | `x` |  |
| `D` | `x`, `head` | at most 64 |

`T` is `f16` or `f32`.

A call is an error unless `head % 2 == 0`.

# Formula
```text
output[M] = sum_{H,D} 2 * x[M,H,D]
```

# Algorithm: another
```text
output[M] = sum_{H,D} 2 * x[M,H,D]
```";
        assert_eq!(lines(&kernel, &algorithms).join("\n"), want)
    }
}
