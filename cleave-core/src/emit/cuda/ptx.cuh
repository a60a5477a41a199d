// Cleave tile primitives, part 1: what needs PTX. The other parts are plain C++ over these functions.
// Self-contained: no include, so that nvcc and NVRTC both take it. Shared memory is named by byte offsets from its start.
namespace cleave {
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

#define CLEAVE_DEVICE __device__ __forceinline__
#define CLEAVE_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define CLEAVE_PARAMS const __grid_constant__
#define CLEAVE_UNROLL _Pragma("unroll")
#define CLEAVE_ONCE _Pragma("unroll 1")

extern __shared__ __align__(128) unsigned char shared_memory[];

CLEAVE_DEVICE int thread() { return (int)threadIdx.x; }
CLEAVE_DEVICE int block() { return (int)blockIdx.x; }
CLEAVE_DEVICE int lane() { return (int)threadIdx.x & 31; }
// The warp of a thread, known to the compiler to be uniform. All lanes call it together, as they do every shuffle.
CLEAVE_DEVICE int warp() { return __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0); }
CLEAVE_DEVICE void barrier() { __syncthreads(); }
CLEAVE_DEVICE float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

CLEAVE_DEVICE float exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// 1 / x to the last bit but one.
CLEAVE_DEVICE float reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
CLEAVE_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
CLEAVE_DEVICE float log(float x) { return ::logf(x); }
CLEAVE_DEVICE float absolute(float x) { return ::fabsf(x); }
CLEAVE_DEVICE float square_root(float x) { return ::sqrtf(x); }
CLEAVE_DEVICE float reciprocal_root(float x) { float y; asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
CLEAVE_DEVICE float greater(float x, float y) { return ::fmaxf(x, y); }
CLEAVE_DEVICE float lesser(float x, float y) { return ::fminf(x, y); }
CLEAVE_DEVICE float bits_to_float(u32 x) { return __uint_as_float(x); }
CLEAVE_DEVICE u32 float_to_bits(float x) { return __float_as_uint(x); }

CLEAVE_DEVICE float to_float(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
CLEAVE_DEVICE f16 to_f16(float x) { f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
CLEAVE_DEVICE bf16 to_bf16(float x) { bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
// Two values in one register, the first in the low half.
CLEAVE_DEVICE u32 pack(float low, float high, f16) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
CLEAVE_DEVICE u32 pack(float low, float high, bf16) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
// x rounded to the 19 bits that a TF32 product reads.
CLEAVE_DEVICE u32 to_tf32(float x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }

// Sixteen bytes from global to shared memory, of which the last 16 - `bytes` are zero-filled; asynchronous.
CLEAVE_DEVICE void copy16(u32 to, const void* from, int bytes) {
  u32 address = (u32)__cvta_generic_to_shared(shared_memory) + to;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
struct Hint { u64 policy; };
CLEAVE_DEVICE void copy16(u32 to, const void* from, int bytes, Hint hint) {
  // ptxas 13.0 names registers that are never set where a copy has both a policy and a uniform part of its shared address: an illegal instruction. The
  // policy's lower half is 0, which ptxas cannot see; an exclusive or with it leaves no part of the address that could be uniform.
  u32 address = ((u32)__cvta_generic_to_shared(shared_memory) + to) ^ (u32)hint.policy;
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(address), "l"(from), "r"(bytes), "l"(hint.policy) : "memory");
}
struct Kept {};  // no policy: caches do as they please
CLEAVE_DEVICE void copy16(u32 to, const void* from, int bytes, Kept) { copy16(to, from, bytes); }
CLEAVE_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of this thread's copies are in flight.
template <int N> CLEAVE_DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Four 8x8 matrices of 16-bit values; lane l names row l % 8 of matrix l / 8.
CLEAVE_DEVICE void load_matrices(u32 (&r)[4], u32 at) {
  u32 address = (u32)__cvta_generic_to_shared(shared_memory) + at;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
CLEAVE_DEVICE void load_matrices_transposed(u32 (&r)[4], u32 at) {
  u32 address = (u32)__cvta_generic_to_shared(shared_memory) + at;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
// d += a b: 16 x 16 by 16 x 8.
CLEAVE_DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
CLEAVE_DEVICE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d += a b in TF32: 16 x 8 by 8 x 8.
CLEAVE_DEVICE void multiply_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Sixteen bytes of global memory that no one writes meanwhile; with a policy, they are not held in the first cache.
struct alignas(16) Quad { u32 r[4]; };
CLEAVE_DEVICE Quad load_quad(const Quad* p) {
  Quad q;
  asm("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.r[0]), "=r"(q.r[1]), "=r"(q.r[2]), "=r"(q.r[3]) : "l"(p));
  return q;
}
CLEAVE_DEVICE Quad load_quad(const Quad* p, u64 policy) {
  Quad q;
  asm("{\n.reg .pred hinted;\nsetp.ne.u64 hinted, %5, 0;\n@hinted ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;\n"
      "@!hinted ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];\n}"
      : "=r"(q.r[0]), "=r"(q.r[1]), "=r"(q.r[2]), "=r"(q.r[3]) : "l"(p), "l"(policy));
  return q;
}
// STREAM: no one reads them soon.
template <bool STREAM> CLEAVE_DEVICE void store_quad(Quad* p, Quad q) {
  if (STREAM) asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(q.r[0]), "r"(q.r[1]), "r"(q.r[2]), "r"(q.r[3]) : "memory");
  else *p = q;
}
// The policy under which what is read leaves the second cache before all else.
CLEAVE_DEVICE u64 evicted_first() { u64 policy; asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy)); return policy; }
// A policy through a shuffle, which hides that its lower half is 0: see copy16.
CLEAVE_DEVICE u64 opaque(u64 policy) {
  const u32 low = __shfl_sync(0xffffffffu, (u32)policy, 0), high = __shfl_sync(0xffffffffu, (u32)(policy >> 32), 0);
  return (u64)high << 32 | low;
}
// Adds one to a counter: releases the writes that a barrier ordered before it, acquires those of the others.
CLEAVE_DEVICE u32 arrive(u32* counter) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
} // namespace cleave
