// Cleave tile primitives, part 3: PTX of compute capability 9.0 alone. Barriers and tiles are named by 32-bit shared addresses.
namespace cleave {
// What cuTensorMapEncodeTiled writes.
struct alignas(64) TensorMap { u64 words[16]; };

CLEAVE_DEVICE u32 shared_start() { return (u32)__cvta_generic_to_shared(shared_memory); }
CLEAVE_DEVICE int grid() { return (int)gridDim.x; }
// A value that is the same in all lanes, known to the compiler to be so: it then lives in a uniform register.
CLEAVE_DEVICE int uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }
// The counter's value, raised by one; `last` is followed by 0.
CLEAVE_DEVICE int claim(u32* counter, int last) { return (int)atomicInc(counter, (unsigned)last); }
CLEAVE_DEVICE int read_shared(u32 at) { int x; asm volatile("ld.shared.s32 %0, [%1];" : "=r"(x) : "r"(at) : "memory"); return x; }
CLEAVE_DEVICE void write_shared(u32 at, int x) { asm volatile("st.shared.s32 [%0], %1;" ::"r"(at), "r"(x) : "memory"); }
CLEAVE_DEVICE void write_shared8(u32 at, u32 x, u32 y) { asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(at), "r"(x), "r"(y) : "memory"); }
CLEAVE_DEVICE void write_shared16(u32 at, u32 x, u32 y, u32 z, u32 w) { asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x), "r"(y), "r"(z), "r"(w) : "memory"); }
CLEAVE_DEVICE void read_shared16(u32 at, u32 (&x)[4]) { asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory"); }

CLEAVE_DEVICE void barrier_init(u32 b, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(arrivals) : "memory"); }
CLEAVE_DEVICE void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Arrives; the phase ends only after so many bytes more have been copied.
CLEAVE_DEVICE void barrier_expect(u32 b, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
CLEAVE_DEVICE void barrier_arrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
// Until the phase of that parity has ended.
CLEAVE_DEVICE void barrier_wait(u32 b, int parity) {
#ifdef CLEAVE_PATIENCE  // for finding out who waits for what: a name and a stop after so many clocks
  for (i64 start = clock64();;) {
    int done;
    asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.s32 %0, 1, 0, done;\n}\n" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    if (done) return;
    if (clock64() - start > CLEAVE_PATIENCE) {
      if (lane() == 0) printf("block %d warp %d waits for barrier %u (shared + %u), parity %d\n", block(), (int)threadIdx.x >> 5, b, b - ((shared_start() + 1023) & ~1023u), parity);
      if (clock64() - start > 2 * (i64)CLEAVE_PATIENCE) __trap();
    }
  }
#else
  asm volatile("{\n.reg .pred done;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra over_%=;\nbra again_%=;\nover_%=:\n}\n" ::"r"(b), "r"(parity) : "memory");
#endif
}
// Makes what was written to shared memory visible to copies and products.
CLEAVE_DEVICE void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
CLEAVE_DEVICE void barrier_of(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

CLEAVE_DEVICE void prefetch_map(const TensorMap& m) { asm volatile("prefetch.tensormap [%0];" ::"l"(&m) : "memory"); }
// A box of a tensor to shared memory, zero outside the tensor.
CLEAVE_DEVICE void copy_box(u32 to, const TensorMap& m, u32 b, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4}], [%2];" ::"r"(to), "l"(&m), "r"(b), "r"(c0), "r"(c1) : "memory");
}
CLEAVE_DEVICE void copy_box(u32 to, const TensorMap& m, u32 b, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5}], [%2];" ::"r"(to), "l"(&m), "r"(b), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
CLEAVE_DEVICE void copy_box(u32 to, const TensorMap& m, u32 b, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], [%2];" ::"r"(to), "l"(&m), "r"(b), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
CLEAVE_DEVICE void copy_box(u32 to, const TensorMap& m, u32 b, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6,%7}], [%2];" ::"r"(to), "l"(&m), "r"(b), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
// A box of shared memory to a tensor, what lies outside the tensor left out; asynchronous, in groups of the thread that asks.
CLEAVE_DEVICE void store_box(const TensorMap& m, u32 from, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2,%3}], [%1];" ::"l"(&m), "r"(from), "r"(c0), "r"(c1) : "memory");
}
CLEAVE_DEVICE void store_box(const TensorMap& m, u32 from, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2,%3,%4}], [%1];" ::"l"(&m), "r"(from), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
CLEAVE_DEVICE void store_box(const TensorMap& m, u32 from, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2,%3,%4,%5}], [%1];" ::"l"(&m), "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
CLEAVE_DEVICE void store_box(const TensorMap& m, u32 from, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2,%3,%4,%5,%6}], [%1];" ::"l"(&m), "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
CLEAVE_DEVICE void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until at most N groups of stores have still to read shared memory.
template <int N> CLEAVE_DEVICE void stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }

// Products of a warpgroup are asynchronous: what they read and write must not be touched from the fence to the wait.
CLEAVE_DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CLEAVE_DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> CLEAVE_DEVICE void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// The same number, of which the compiler knows nothing: what follows from it is computed where it is used, not kept.
CLEAVE_DEVICE u32 recomputed(u32 x) { asm volatile("" : "+r"(x)); return x; }
// Keeps the compiler from moving uses of registers across this point.
template <int N> CLEAVE_DEVICE void pin(float (&x)[N][4]) {
CLEAVE_UNROLL
  for (int i = 0; i < N; i++)
CLEAVE_UNROLL
    for (int c = 0; c < 4; c++) asm volatile("" : "+f"(x[i][c])::"memory");
}
template <int N> CLEAVE_DEVICE void pin(u32 (&x)[N][4]) {
CLEAVE_UNROLL
  for (int i = 0; i < N; i++)
CLEAVE_UNROLL
    for (int c = 0; c < 4; c++) asm volatile("" : "+r"(x[i][c])::"memory");
}
// Registers of a thread of this warpgroup from here on.
template <int N> CLEAVE_DEVICE void raise_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> CLEAVE_DEVICE void lower_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
// Four 8x8 matrices of 16-bit values; lane l names row l % 8 of matrix l / 8.
CLEAVE_DEVICE void store_matrices(u32 at, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
} // namespace cleave
