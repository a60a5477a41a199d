//! Every way in which a call can fail before it runs, with the words that it fails with. The kernel is `rows`: the sum of each row of
//! a matrix, times a weight for each row.
use cleave_core::axis::AxisId;
use cleave_core::cost::Cost;
use cleave_core::device::Target;
use cleave_core::dtype::{DType, Element as Declared};
use cleave_core::graph::{Access, Graph, InputId, Store};
use cleave_core::kernel::{Algorithm, Kernel, Param};
use cleave_core::plan::{Entry, Guard, Instance, PlanFile, TensorRef, VERSION};
use cleave_runtime::private::{Argument, Embedded, call};
use cleave_runtime::{Call, Device, Element, Error, Tensor, View, ViewMut};
use std::ptr::NonNull;

/// `y[M] = a * w[M] * sum_N x[M, N]`, `z[M] = w[M]`, built for f32 and f16, for N up to 100 and contiguous rows.
fn plan_file() -> PlanFile {
    let mut graph = Graph::default();
    let (m, n) = (graph.add_axis("M"), graph.add_axis("N"));
    let element = Declared::Param(0);
    let x = graph.add_input("x", element, Access::plain([m, n]));
    let w = graph.add_input("w", element, Access::plain([m]));
    let a = graph.add_input("a", Declared::Type(DType::F32), Access::default());
    let (x, w, a) = (graph.read(x, Access::plain([m, n])), graph.read(w, Access::plain([m])), graph.scalar(a));
    let sum = graph.sum([n].into_iter().collect(), x);
    let y = graph.mul(&[sum, w, a]);
    let store = |node| vec![Store { node, access: Access::plain([AxisId(0)]) }];
    graph.add_output("y", element, Access::plain([m]), store(y));
    graph.add_output("z", element, Access::plain([m]), store(w));
    let kernel = Kernel {
        name: "rows".into(),
        graph: graph.clone(),
        params: vec![Param { name: "T".into(), types: vec![DType::F32, DType::F16] }],
        bounds: vec![],
        assertions: vec![],
        assumptions: vec![],
    };
    let programs = vec![cleave_core::schedule::programs(0, &graph, &[]).swap_remove(0)];
    let entry = Entry {
        program: 0,
        target: Target::Cpu,
        tiles: cleave_core::emit::cpu::entries(&programs).swap_remove(0).tiles,
        launches: vec![],
        guards: vec![Guard::AtMost(n, 100), Guard::Contiguous(TensorRef::Input(InputId(0)), 1)],
    };
    let instances = kernel.instances().into_iter().map(|types| Instance { types, entries: vec![entry.clone()], modules: vec![] }).collect();
    PlanFile {
        version: VERSION,
        key: 0,
        kernel,
        algorithms: vec![Algorithm { name: "source".into(), graph, cost: Cost::default(), derivation: vec![], assumptions: vec![] }],
        programs,
        instances,
    }
}

fn rows<'call, T: Element>(x: impl cleave_runtime::AsView<'call, T>, w: impl cleave_runtime::AsView<'call, T>) -> Call<'call, (Tensor<T>, Tensor<T>)> {
    let kernel: &'static Embedded = Box::leak(Box::new(Embedded::new("rows", plan_file().to_bytes().leak())));
    call(kernel, &[T::DTYPE], vec![Argument::tensor(x), Argument::tensor(w), Argument::scalar(2.0f32)])
}

fn tensor(shape: &[usize]) -> Tensor<f32> {
    Tensor::from_fn(shape, |_| 1.0).unwrap()
}

fn refusal<O>(result: Result<O, Error>) -> String {
    result.err().expect("the call is at fault").to_string()
}

#[test]
fn extents_that_disagree_are_named_with_their_axis_and_tensors() {
    let (x, w) = (tensor(&[3, 4]), tensor(&[5]));
    assert_eq!(refusal(rows(&x, &w).run()), "`rows`: axis `M` is 3 in `x` and 5 in `w`");
}

#[test]
fn a_tensor_of_another_rank_is_named() {
    let (x, w) = (tensor(&[12]), tensor(&[3]));
    assert_eq!(refusal(rows(&x, &w).run()), "`rows`: `x` has 1 dimensions, the kernel declares 2");
}

#[test]
fn a_type_that_the_kernel_was_not_built_for_says_what_to_add() {
    let x = Tensor::<half::bf16>::zeros(&Device::cpu(), &[3, 4]).unwrap();
    let w = Tensor::<half::bf16>::zeros(&Device::cpu(), &[3]).unwrap();
    assert_eq!(refusal(rows(&x, &w).run()), "`rows` is not built for T = bf16, only for f32, f16; add bf16 to `dtypes(T = ..)`");
}

#[test]
fn a_target_of_another_shape_is_refused() {
    let (x, w) = (tensor(&[3, 4]), tensor(&[3]));
    let (mut y, mut z) = (tensor(&[3]), tensor(&[4]));
    assert_eq!(refusal(rows(&x, &w).run_into((&mut y, &mut z))), "`rows`: output `z` has shape [3], the target [4]");
}

#[test]
fn an_output_over_an_input_is_refused() {
    let (x, mut w) = (tensor(&[3, 4]), tensor(&[3]));
    let mut y = tensor(&[3]);
    let pointer = NonNull::from(w.as_mut_slice().unwrap()).cast::<f32>();
    // SAFETY: the memory outlives both views, and the call must refuse to touch it
    let (read, write) = unsafe { (View::from_raw_parts(pointer, 3, &[3], &[1]).unwrap(), ViewMut::from_raw_parts(pointer, 3, &[3], &[1]).unwrap()) };
    assert_eq!(refusal(rows(&x, &read).run_into((&mut y, write))), "`rows`: output `z` overlaps `w`; give it memory of its own");
}

#[test]
fn two_outputs_in_one_place_are_refused() {
    let (x, w, mut y) = (tensor(&[3, 4]), tensor(&[3]), tensor(&[3]));
    let pointer = NonNull::from(y.as_mut_slice().unwrap()).cast::<f32>();
    // SAFETY: as above
    let target = || unsafe { ViewMut::from_raw_parts(pointer, 3, &[3], &[1]).unwrap() };
    assert_eq!(refusal(rows(&x, &w).run_into((target(), target()))), "`rows`: output `z` overlaps `y`; give it memory of its own");
}

#[test]
fn an_output_whose_elements_share_addresses_is_refused() {
    let (x, w, mut y) = (tensor(&[3, 4]), tensor(&[3]), tensor(&[3]));
    let mut one = [0.0f32];
    let target = ViewMut::from_slice(&mut one, &[3], &[0]).unwrap();
    assert_eq!(refusal(rows(&x, &w).run_into((&mut y, target))), "`rows`: elements of output `z` share addresses (strides [0]); give it memory of its own");
}

#[test]
fn extents_that_no_entry_serves_are_told_with_the_reason() {
    let (x, w) = (tensor(&[2, 101]), tensor(&[2]));
    assert_eq!(refusal(rows(&x, &w).run()), "no compiled entry of `rows` accepts M=2 N=101: axis `N` is 101, at most 100 are served");
    let x = tensor(&[4, 2]);
    let turned = x.permute(&[1, 0]).unwrap();
    assert_eq!(refusal(rows(&turned, &w).plan()), "no compiled entry of `rows` accepts M=2 N=4: dimension 1 of `x` is not contiguous");
}

#[test]
fn arguments_of_the_wrong_kind_or_number_are_refused() {
    let kernel: &'static Embedded = Box::leak(Box::new(Embedded::new("rows", plan_file().to_bytes().leak())));
    let (x, w) = (tensor(&[3, 4]), tensor(&[3]));
    let run = |arguments| refusal(call::<(Tensor<f32>, Tensor<f32>)>(kernel, &[DType::F32], arguments).run());
    assert_eq!(run(vec![Argument::tensor::<f32>(&x)]), "`rows`: it takes 3 arguments, 1 were given");
    assert_eq!(run(vec![Argument::tensor::<f32>(&x), Argument::scalar(1.0f32), Argument::scalar(1.0f32)]), "`rows`: `w` is a tensor, a number was given");
    assert_eq!(run(vec![Argument::tensor::<f32>(&x), Argument::tensor::<f32>(&w), Argument::scalar(1i32)]), "`rows`: `a` holds i32, the kernel declares f32");
}

#[test]
fn a_plan_says_what_runs_without_running_it() {
    let (x, w) = (tensor(&[3, 4]), tensor(&[3]));
    let plan = rows(&x, &w).plan().unwrap();
    assert_eq!((plan.algorithm.as_str(), plan.program.as_str(), plan.split()), ("source", plan_file().programs[0].name.as_str(), 1));
    assert!(plan.to_string().starts_with("rows at M=3 N=4 on cpu with "), "{plan}");
}
