//! Plans that are timed: alone in this program, as the folder of tuned choices is a variable of the process.
#![allow(clippy::too_many_arguments)]
use cleave::{Device, Tensor};

#[cleave::kernel(dtypes(T = f32))]
pub fn weighted<T>(x: Tensor<T, M, N>, v: Tensor<T, N, E>) -> Tensor<T, M, E> {
    sum::<N>(softmax::<N>(x) * v)
}

#[test]
fn a_tuned_plan_is_run_from_then_on_and_kept_on_disk() {
    let folder = std::env::temp_dir().join(format!("cleave-tune-{}", std::process::id()));
    // SAFETY: no other thread of this program reads the environment meanwhile
    unsafe { std::env::set_var("CLEAVE_TUNED", &folder) };
    let tensor = |shape: &[usize]| {
        let n: usize = shape.iter().product();
        Tensor::from_slice_on(&Device::cpu(), &(0..n).map(|i| (i % 7) as f32).collect::<Vec<_>>(), shape).unwrap()
    };
    let (x, v) = (tensor(&[40, 300]), tensor(&[300, 16]));
    let before = weighted(&x, &v).run().unwrap().to_vec().unwrap();
    let tuned = weighted(&x, &v).tune().unwrap();
    let after = weighted(&x, &v).plan().unwrap();
    assert_eq!((&tuned.program, &tuned.tiles, &tuned.pieces), (&after.program, &after.tiles, &after.pieces));
    assert_eq!(tuned.seconds, after.seconds, "the time is what was measured");
    let result = weighted(&x, &v).run().unwrap().to_vec().unwrap();
    assert!(result.iter().zip(&before).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs()));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    let text = std::fs::read_to_string(&files[0]).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((files.len(), text.lines().count()), (1, 2), "{text}");
    assert!(text.starts_with("cleave tuned 1 kernel weighted menu "), "{text}")
}
