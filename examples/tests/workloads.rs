//! The benchmark's names are the peers' names: without that no comparison is one.
use examples::bench::{Workload, workloads};

fn names(workloads: &[Workload]) -> Vec<&str> {
    workloads.iter().map(|w| w.name.as_str()).collect()
}

#[test]
fn cpu_workloads_are_those_of_the_peers_script() {
    let script = include_str!("../peers/peers_cpu.py");
    // the script writes head counts and lengths of attention by a loop
    let in_script = |name: &str| script.contains(&format!("\"{name}\"")) || name.starts_with("attention H");
    let all = workloads::cpu();
    let foreign: Vec<&str> = names(&all).into_iter().filter(|n| !in_script(n)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert_eq!(all.len(), 12);
}

#[test]
fn attention_workloads_on_cuda_are_those_of_the_peers_script() {
    let script = include_str!("../peers/peers.py");
    let all = workloads::cuda();
    let attention: Vec<&str> = names(&all).into_iter().filter(|n| n.starts_with("prefill") || n.starts_with("decode")).collect();
    assert_eq!(attention.len(), 13);
    let foreign: Vec<&str> = attention.into_iter().filter(|n| !script.contains(&format!("(\"{n}\""))).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
