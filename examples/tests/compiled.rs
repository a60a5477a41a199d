//! What the build made of every kernel of this package.
use cleave::core::device::Target;
use examples::catalogue::plan_files;

#[test]
fn every_choice_of_types_has_cuda_sources_and_all_are_compiled_where_architectures_are_named() {
    let archs = option_env!("CLEAVE_ARCHS").filter(|a| *a != "none");
    for file in plan_files().expect("embedded plan files") {
        for instance in &file.instances {
            let sources = instance.modules.iter().filter(|m| m.target != Target::Cpu).collect::<Vec<_>>();
            assert!(!sources.is_empty(), "`{}` for {:?} has no CUDA source", file.kernel.name, instance.types);
            let missing = sources.iter().filter(|m| m.images.is_empty()).count();
            assert!(archs.is_none() || missing == 0, "`{}` for {:?}: nvcc refused {missing} sources", file.kernel.name, instance.types)
        }
    }
}
