// A CUDA block on the CPU: stands in for the PTX part of the tile primitives, so that a generated kernel runs where there is no
// GPU. Threads are fibers; a barrier, a shuffle and a product of matrices switch between them. An asynchronous copy poisons its
// destination with NaN and lands when its group is waited for, so that a missing wait shows.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct alignas(8) float2 { float x, y; };

namespace emulator {
enum State { RUN, WARP, BLOCK, DONE };
struct Copy { uint32_t to; const void* from; int bytes; };
struct Fiber {
  ucontext_t context;
  State state;
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
};
inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline int current, block;
inline std::vector<char> stacks;
inline std::function<void()> kernel;
inline uint32_t exchange[64][32][8];
constexpr size_t STACK = 512 * 1024;
inline void wait(State s) { fibers[current].state = s; swapcontext(&fibers[current].context, &scheduler); }
inline void enter() { kernel(); fibers[current].state = DONE; swapcontext(&fibers[current].context, &scheduler); }
inline void run_block(int threads) {
  if ((int)fibers.size() != threads) { fibers.clear(); fibers.resize(threads); stacks.resize(STACK * threads); }
  for (int t = 0; t < threads; t++) {
    Fiber& f = fibers[t];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks.data() + STACK * t;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, enter, 0);
    f.state = RUN;
    f.open.clear();
    f.groups.clear();
  }
  for (;;) {
    bool ran = false, done = true;
    for (int t = 0; t < threads; t++)
      if (fibers[t].state == RUN) { current = t; swapcontext(&scheduler, &fibers[t].context); ran = true; }
    int at_barrier = 0, alive = 0;
    for (int w = 0; w < threads; w += 32) {
      int waiting = 0, live = 0;
      for (int t = w; t < w + 32; t++) { live += fibers[t].state != DONE; waiting += fibers[t].state == WARP; at_barrier += fibers[t].state == BLOCK; }
      alive += live;
      if (live && waiting == live) { for (int t = w; t < w + 32; t++) if (fibers[t].state == WARP) fibers[t].state = RUN; ran = true; }
    }
    done = alive == 0;
    if (done) return;
    if (at_barrier == alive) { for (Fiber& f : fibers) if (f.state == BLOCK) f.state = RUN; ran = true; }
    if (!ran) { fprintf(stderr, "deadlock: threads of a block wait for different things\n"); exit(3); }
  }
}
} // namespace emulator

namespace cleave {
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
#define CLEAVE_DEVICE inline
#define CLEAVE_KERNEL(threads, blocks) static void
#define CLEAVE_PARAMS const
#define CLEAVE_UNROLL
#define CLEAVE_ONCE
alignas(128) inline unsigned char shared_memory[232 * 1024];
inline int thread() { return emulator::current; }
inline int block() { return emulator::block; }
inline int lane() { return emulator::current & 31; }
inline int warp() { return emulator::current >> 5; }
inline void barrier() { emulator::wait(emulator::BLOCK); }
inline void warp_barrier() { emulator::wait(emulator::WARP); }
inline float bits_to_float(u32 x) { float f; memcpy(&f, &x, 4); return f; }
inline u32 float_to_bits(float x) { u32 u; memcpy(&u, &x, 4); return u; }
inline u32* mine() { return emulator::exchange[warp()][lane()]; }
inline u32* theirs(int lane) { return emulator::exchange[warp()][lane]; }
inline float shuffle_xor(float x, int mask) {
  mine()[0] = float_to_bits(x);
  warp_barrier();
  float y = bits_to_float(theirs(lane() ^ mask)[0]);
  warp_barrier();
  return y;
}
inline float exp2(float x) { return ::exp2f(x); }
inline float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
inline float log(float x) { return ::logf(x); }
inline float tanh(float x) { return ::tanhf(x); }
inline float absolute(float x) { return ::fabsf(x); }
inline float square_root(float x) { return ::sqrtf(x); }
inline float greater(float x, float y) { return ::fmaxf(x, y); }
inline float lesser(float x, float y) { return ::fminf(x, y); }
inline float to_float(f16 x) { _Float16 h; memcpy(&h, &x, 2); return (float)h; }
inline f16 to_f16(float x) { _Float16 h = (_Float16)x; f16 y; memcpy(&y, &h, 2); return y; }
inline bf16 to_bf16(float x) { u32 u = float_to_bits(x); bf16 y; y.bits = x != x ? 0x7fff : (unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16); return y; }
inline float widen(bf16 x) { return bits_to_float((u32)x.bits << 16); }
inline float widen(f16 x) { return to_float(x); }
inline u32 pack(float low, float high, f16) { return to_f16(low).bits | (u32)to_f16(high).bits << 16; }
inline u32 pack(float low, float high, bf16) { return to_bf16(low).bits | (u32)to_bf16(high).bits << 16; }
inline u32 to_tf32(float x) { u32 u = float_to_bits(x); return x != x ? u : (u + 0x1000) & 0xffffe000u; }
inline void land(const std::vector<emulator::Copy>& group) {
  for (auto& c : group) { memset(shared_memory + c.to, 0, 16); if (c.bytes) memcpy(shared_memory + c.to, c.from, c.bytes); }
}
inline void copy16(u32 to, const void* from, int bytes) {
  if (to % 16 || (bytes && (u64)from % 16)) { fprintf(stderr, "misaligned copy\n"); exit(4); }
  memset(shared_memory + to, 0xff, 16);
  emulator::fibers[emulator::current].open.push_back({to, from, bytes});
}
inline void copy16(u32 to, const void* from, int bytes, u64) { copy16(to, from, bytes); }
struct Kept {};
inline void copy16(u32 to, const void* from, int bytes, Kept) { copy16(to, from, bytes); }
inline void copy_commit() { auto& f = emulator::fibers[emulator::current]; f.groups.push_back(f.open); f.open.clear(); }
template <int N> void copy_wait() {
  auto& g = emulator::fibers[emulator::current].groups;
  while ((int)g.size() > N) { land(g.front()); g.erase(g.begin()); }
}
inline void matrices(u32 (&r)[4], u32 at, bool transposed) {
  if (at % 16) { fprintf(stderr, "misaligned matrix row\n"); exit(4); }
  mine()[0] = at;
  warp_barrier();
  for (int m = 0; m < 4; m++) {
    unsigned short h[2];
    for (int e = 0; e < 2; e++) {
      int row = transposed ? 2 * (lane() % 4) + e : lane() / 4, column = transposed ? lane() / 4 : 2 * (lane() % 4) + e;
      memcpy(&h[e], shared_memory + theirs(8 * m + row)[0] + 2 * column, 2);
    }
    r[m] = h[0] | (u32)h[1] << 16;
  }
  warp_barrier();
}
inline void load_matrices(u32 (&r)[4], u32 at) { matrices(r, at, false); }
inline void load_matrices_transposed(u32 (&r)[4], u32 at) { matrices(r, at, true); }
template <class T> void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, T) {
  u32* m = mine();
  for (int i = 0; i < 4; i++) m[i] = a[i];
  m[4] = b0; m[5] = b1;
  warp_barrier();
  auto half = [](u32 r, int h) { T x; x.bits = (unsigned short)(r >> (16 * h)); return widen(x); };
  for (int c = 0; c < 4; c++) {
    const int row = lane() / 4, column = 2 * (lane() % 4) + c % 2;
    double sum = d[c];
    for (int k = 0; k < 16; k++) {
      const u32 ra = theirs(4 * row + (k % 8) / 2)[c / 2 + 2 * (k / 8)], rb = theirs(4 * column + (k % 8) / 2)[4 + k / 8];
      sum += (double)half(ra, k % 2) * half(rb, k % 2);
    }
    d[c] = (float)sum;
  }
  warp_barrier();
}
inline void multiply_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  u32* m = mine();
  for (int i = 0; i < 4; i++) m[i] = a[i];
  m[4] = b0; m[5] = b1;
  warp_barrier();
  for (int c = 0; c < 4; c++) {
    const int row = lane() / 4, column = 2 * (lane() % 4) + c % 2;
    double sum = d[c];
    for (int k = 0; k < 8; k++) sum += (double)bits_to_float(theirs(4 * row + k % 4)[c / 2 + 2 * (k / 4)]) * bits_to_float(theirs(4 * column + k % 4)[4 + k / 4]);
    d[c] = (float)sum;
  }
  warp_barrier();
}
struct alignas(16) Quad { u32 r[4]; };
inline Quad load_quad(const Quad* p) {
  if ((u64)p % 16) { fprintf(stderr, "misaligned load\n"); exit(4); }
  return *p;
}
inline Quad load_quad(const Quad* p, u64) { return load_quad(p); }
template <bool STREAM> void store_quad(Quad* p, Quad q) {
  if ((u64)p % 16) { fprintf(stderr, "misaligned store\n"); exit(4); }
  *p = q;
}
inline u64 stream_policy(i64) { return 0; }
inline u32 arrive(u32* counter) { return (*counter)++; }
} // namespace cleave

// ---- a call: buffers, then launches whose words name buffers or hold values -----------------------------------
struct Call {
  std::vector<std::vector<char>> buffers;
  FILE* file;
  explicit Call(const char* path) : file(fopen(path, "rb")) {
    if (!file) { perror(path); exit(2); }
    buffers.resize(number());
    for (auto& b : buffers) { b.resize(number() + 64); const uint64_t n = b.size() - 64; if (n && fread(aligned(b), 1, n, file) != n) exit(2); }
  }
  static char* aligned(std::vector<char>& b) { return (char*)(((uintptr_t)b.data() + 63) & ~(uintptr_t)63); }
  uint64_t number() { uint64_t n; if (fread(&n, 8, 1, file) != 1) exit(2); return n; }
  // blocks, threads, words as (buffer + 1 or 0, value)
  template <class P, class F> void launch(F kernel) {
    const uint64_t blocks = number(), threads = number(), words = number();
    P p;
    for (uint64_t i = 0; i < words; i++) { const uint64_t b = number(), v = number(); p.w[i] = b ? (uint64_t)aligned(buffers[b - 1]) + v : v; }
    for (uint64_t b = 0; b < blocks; b++) {
      memset(cleave::shared_memory, 0xff, sizeof cleave::shared_memory);
      emulator::block = (int)b;
      emulator::kernel = [&] { kernel(p); };
      emulator::run_block((int)threads);
    }
  }
  void save(const char* path) {
    FILE* out = fopen(path, "wb");
    for (auto& b : buffers) fwrite(aligned(b), 1, b.size() - 64, out);
    fclose(out);
  }
};
