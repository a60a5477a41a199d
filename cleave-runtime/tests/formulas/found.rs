//! What drawn formulas found, as small as it could be made: each equals the oracle in every program, whatever extents, tiles and types.
use super::check;

/// Several seeds: other extents, tiles and pieces.
fn holds(text: &str) {
    for seed in 0..8 {
        if let Err(e) = check(&format!("#[kernel] fn found{text}"), seed) {
            panic!("{e}")
        }
    }
}

#[test]
fn a_condition_that_always_holds_masks_nothing() {
    holds("(x: Tensor<f32, A, B>) -> Tensor<f32, A> { max(max::<B>(mask(x, index::<B>() >= index::<B>())), -4.0) }")
}

#[test]
fn what_a_mask_hides_may_be_infinite_in_either_operand_of_a_product() {
    holds(
        "(x: Tensor<f32, D, A, B>, y: Tensor<f32, C, D, B>, len: Tensor<i32, D>, n: i32) -> Tensor<f32, D, C> {
            sum::<(B, A)>(softmax::<(B, A)>(mask(x, len < index::<B>() && n >= len)) * (if len > n { 1.0 } else { y }))
        }",
    )
}

#[test]
fn a_count_taken_before_the_first_frame_is_no_moment() {
    holds("(z: Tensor<f32, C, A, B>) -> Tensor<f32> { max(max::<B>(var::<C>(3 * tanh(min(min::<A>(z), 4.0)))), -4.0) }")
}

#[test]
fn moments_over_two_axes_have_a_schedule() {
    holds(
        "(x: Tensor<f32, B, C>, y: Tensor<f32, B, C>) -> Tensor<f32, B, C> { layer_norm::<(B, C)>(0.25 * y + 0.0625 * cast::<f32>(index::<C>()), y, x, 0.125) }",
    );
    holds("(y: Tensor<f32, D, B, A>, x: Tensor<f32, D, B, C>) -> Tensor<f32, D> { var::<(C, A)>(3 * tanh(sum::<B>(softmax::<B>(x) * y))) }")
}

#[test]
fn a_variance_of_nothing_but_noise_is_no_difference() {
    holds(
        "(x: Tensor<f32, A>, y: Tensor<f32, A>) -> Tensor<f32> {
            var::<A>(mask(3 * tanh(if index::<A>() >= 3 * index::<A>() { x } else { 1.0 }), index::<A>() > index::<A>() / 3)) * mean::<A>(y)
        }",
    )
}

#[test]
fn a_sum_within_a_tile_that_a_later_loop_reads_lies_between_those_of_other_turns() {
    holds(
        "(x: Tensor<f16, A, C, B>) -> Tensor<f16, C, B> {
            -softmax::<B>(sum::<A>(mask(x, extent::<B>() == index::<C>() - index::<B>() || index::<A>() / 3 >= index::<C>())))
        }",
    )
}

#[test]
fn a_centre_stays_with_its_moments() {
    holds(
        "(x: Tensor<bf16, B>, y: Tensor<bf16, B>) -> Tensor<f32, B> {
            let v = var::<B>(3 * tanh(y));
            layer_norm::<B>(if index::<B>() < index::<B>() + index::<B>() { 0.25 * v + 0.5 * x } else { 0.25 }, v, y, 0.125)
        }",
    );
}

#[test]
fn a_value_that_dies_gives_its_place_to_one_other() {
    holds(
        "(x: Tensor<f32, B>, w: Tensor<f32, B>, n: i32, c: f32) -> Tensor<f32, B> {
            0.25 * (if index::<B>() >= n { sigmoid(x) } else { exp2(softcap(x, 4.0)) }) + 0.5 * (max(c, w) + max(w, 0.5))
        }",
    )
}

/// Whatever a mask leaves empty: what divides by it stands beside what it makes 0, in the same operand or in no product of operands.
#[test]
fn what_is_not_there_hides_its_own_reciprocal_and_logarithm_in_any_association() {
    let never = "3 * n <= index::<A>() % 2 && index::<A>() < n";
    // the divisor varies along nothing, along the axis of the weights, along that of the values, along what is summed
    for (x, z) in [("x", "c"), ("y", "y"), ("y", "z"), ("y", "x + z")] {
        for body in ["W / Z", "W * log(Z)", "W * V / Z", "(W * V) / square(Z)", "W * V * (1 + log(Z))", "V * mask(x, P) * rsqrt(Z)"] {
            let body = body.replace('W', &format!("softmax::<A>(mask({x}, P))")).replace('Z', "d").replace('V', "v").replace('P', never);
            holds(&format!(
                "(x: Tensor<f32, A, B>, y: Tensor<f32, A>, z: Tensor<f32, A, C>, v: Tensor<f32, A, C>, n: i32, c: f32) -> Tensor<f32, B, C> {{
                    let d = sum::<A>(mask(1 + square({z}), {never}));
                    sum::<A>({body} * (1 + square(z)) / (1 + square(x)))
                }}"
            ))
        }
    }
}

#[test]
fn a_divisor_that_is_not_there_joins_the_mask_though_neither_operand_has_the_axes_of_both() {
    holds(
        "(x: Tensor<f32, B, A>, v: Tensor<f32, A, C>, w: Tensor<f32, A, C>, len: Tensor<i32, B>, n: i32) -> Tensor<f32, B, C> {
            sum::<A>(mask(x, index::<A>() < len) * v / sum::<A>(mask(1 + square(w), index::<A>() < n)))
        }",
    );
    holds(
        "(x: Tensor<f32, A>, y: Tensor<f32, B>, n: i32, c: f32) -> Tensor<f32, B> {
            sum::<A>(softmax::<A>(mask(c - x, 3 * n <= index::<A>() % 2 && index::<A>() < n)) * (x / (1 + square(c - y))))
        }",
    )
}

#[test]
fn a_factor_of_0_wins_over_the_logarithm_of_nothing() {
    holds(
        "(x: Tensor<f32, A, B>, y: Tensor<f32, B>, len: Tensor<i32, A>) -> (Tensor<f32, A>, Tensor<f32, A, B>) {
            let s = mask(x, index::<B>() < len);
            let z = sum::<B>(exp(s));
            (z * logsumexp::<B>(s), abs(z) * y * log(z) * x)
        }",
    )
}

#[test]
fn the_entropy_under_a_mask_that_selects_nothing_is_0() {
    for entropy in ["softmax::<B>(s) * log_softmax::<B>(s)", "softmax::<B>(s) * log(softmax::<B>(s))"] {
        holds(&format!(
            "(x: Tensor<f32, A, B>, len: Tensor<i32, A>) -> Tensor<f32, A> {{
                let s = mask(x, index::<B>() < len);
                -sum::<B>({entropy})
            }}"
        ))
    }
}

#[test]
fn a_frame_is_found_again_without_its_members_by_a_loop_of_its_own() {
    holds("(y: Tensor<f32, B>, z: Tensor<f32, A, B>) -> Tensor<f32, A, B> { softmax::<(A, B)>(0.25 * z + 0.5 * y) }")
}

/// The predicate of a sum within another along the same axis is about that sum's positions.
#[test]
fn a_mask_of_a_factor_that_is_a_sum_along_the_same_axis_bounds_no_loop() {
    for outer in ["mask(x, index::<A>() >= n)", "x", "mask(x * z, index::<A>() <= n)"] {
        holds(&format!(
            "(x: Tensor<f32, A>, y: Tensor<f32, A, B>, z: Tensor<f32, A>, n: i32) -> (Tensor<f32, B>, Tensor<f32>) {{
                (sum::<A>({outer} * sum::<A>(mask(y, index::<A>() < n))), sum::<A>(softmax::<A>({outer}) * sum::<A>(mask(z, index::<A>() < n))))
            }}"
        ))
    }
}

#[test]
fn a_greatest_that_sees_nothing_is_no_0() {
    holds("(x: Tensor<f32, A, B>, y: Tensor<f32, A>, n: i32) -> Tensor<f32> { sum::<A>(y * max(max::<B>(mask(x, index::<A>() < n)), -4.0)) }")
}

#[test]
fn a_variance_of_what_is_made_of_a_variance_counts_for_itself() {
    holds("(x: Tensor<f32, A, B>, y: Tensor<f32, A, B>) -> Tensor<f32, A> { var::<B>(3 * tanh(min(0.25 * x + 0.5 * y, var::<B>(3 * tanh(x))))) }");
    holds(
        "(x: Tensor<f32, A, B>, y: Tensor<f32, A, B>, len: Tensor<i32, A>) -> (Tensor<f32, A>, Tensor<f32, A>) {
            let v = var::<B>(mask(x, index::<B>() < len));
            (var::<B>(mask(min(y, v), index::<B>() < len)), var::<B>(mask(y, index::<B>() < len)))
        }",
    )
}

#[test]
fn a_function_of_what_cancels_is_as_small_as_rounding_makes_it() {
    holds("(x: Tensor<f32, A>, y: Tensor<f32, B>) -> Tensor<f32, B> { tanh(y - sum::<A>(softmax::<A>(x) * y)) }")
}

#[test]
fn two_variances_of_one_loop_count_each_for_itself() {
    holds(
        "(x: Tensor<f32, A, C>, y: Tensor<f32, B, C>) -> (Tensor<f32, A, B>, Tensor<f32, B>) {
            let v = var::<C>(3 * tanh(y));
            (var::<C>(3 * tanh(x)) * v, v)
        }",
    )
}

#[test]
fn a_count_that_is_stored_for_later_launches_is_still_carried_with_its_moments() {
    for mask in ["index::<B>() != n", "index::<B>() < 3 * n || index::<B>() % 2 == n"] {
        holds(&format!(
            "(x: Tensor<f32, B>, y: Tensor<f32, A, B, C>, n: i32) -> (Tensor<f32, A>, Tensor<f32, B, A>) {{
                let v = var::<B>(mask(3 * tanh(x), {mask}));
                (var::<B>(3 * tanh(v / (1 + square(x)))) * max(max::<(B, C)>(y), -4.0), sum::<C>(softmax::<C>(y)) * v)
            }}"
        ))
    }
}
