// A CUDA block on the CPU: stands in for the PTX part of the tile primitives, so that a generated kernel runs where there is no
// GPU. Threads are fibers; a barrier, a shuffle and a product of matrices switch between them. An asynchronous copy poisons its
// destination with NaN and lands when its group is waited for, so that a missing wait shows. So does what compute capability 9.0 adds: a box
// that TMA copies lands when its barrier is waited for, a product of a warpgroup happens at the wait for it, from what shared memory and the
// accumulators then hold. Swizzles and descriptors are decoded as the hardware does, by addresses.
#define CLEAVE_EMULATED
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <setjmp.h>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct alignas(8) float2 { float x, y; };

namespace emulator {
enum State { RUN, WARP, GROUP, BLOCK, POLL, DONE };
struct Copy { uint32_t to; const void* from; int bytes; };
// A product of a warpgroup: each thread's accumulators, and its packed part of the left operand or a descriptor.
struct Product {
  int columns, add, a_mn, b_mn, half;  // half: f16, else bf16
  uint64_t a, b;
  bool packed;
  float* d[128];
  const uint32_t* packed_at[128];
  uint32_t packed_was[128][4];
};
struct Group {
  std::vector<Product> open;
  std::vector<std::vector<Product>> committed;
  int arrived = 0, round = 0;  // threads that have committed, and commits so far
};
struct Box { uint32_t to; const void* map; int at[5]; };  // `to`: the shared address, also of a store
// A barrier of shared memory.
struct Barrier { int arrivals, missing, phase; int64_t bytes; std::vector<Box> boxes; };
struct Fiber {
  ucontext_t context;  // to start it; switches are jumps, which ask nothing of the system
  jmp_buf at;
  bool started;
  const char* what = nullptr;  // what the lanes of a warp meet for
  State state;
  std::function<bool()> ready;
  std::vector<Box> open_stores;
  std::vector<std::vector<Box>> stores;
  int products = 0, waits = 0;  // products of the open group, groups that may stay in flight
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
};
inline std::vector<Fiber> fibers;
inline jmp_buf scheduler;
inline int current, block;
inline char* stacks = nullptr;  // untouched until a fiber uses them
inline std::function<void()> kernel;
inline uint32_t exchange[64][32][8];
inline std::vector<Group> groups;
inline std::map<uint32_t, Barrier> barriers;
inline int grid = 1;
constexpr size_t STACK = 512 * 1024;
// Functions of their own, so that no variable of a caller is in a register that a jump restores.
__attribute__((noinline)) inline void leave() { if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1); }
__attribute__((noinline)) inline void resume(int t) {
  current = t;
  if (_setjmp(scheduler)) return;
  Fiber& f = fibers[t];
  if (f.started) _longjmp(f.at, 1);
  f.started = true;
  setcontext(&f.context);
}
inline void wait(State s) { fibers[current].state = s; leave(); }
inline void poll(std::function<bool()> ready) { while (!ready()) { fibers[current].ready = ready; wait(POLL); } }
inline void finish_products(Group& group, size_t younger);
inline void enter() {
  kernel();
  if (fibers[current].stores.size() + fibers[current].open_stores.size()) { fprintf(stderr, "a store that nothing waits for\n"); exit(4); }
  wait(DONE);
}
inline void run_block(int threads) {
  if ((int)fibers.size() != threads) { fibers.clear(); fibers.resize(threads); free(stacks); stacks = (char*)malloc(STACK * threads); }
  for (int t = 0; t < threads; t++) {
    Fiber& f = fibers[t];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks + STACK * t;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, enter, 0);
    f.started = false;
    f.state = RUN;
    f.open.clear();
    f.groups.clear();
    f.products = 0;
  }
  groups.assign((threads + 127) / 128, Group());
  barriers.clear();
  for (;;) {
    bool ran = false, done = true;
    for (int t = 0; t < threads; t++)
      if (fibers[t].state == RUN || (fibers[t].state == POLL && (current = t, fibers[t].ready()))) { fibers[t].state = RUN; resume(t); ran = true; }
    int at_barrier = 0, alive = 0;
    for (int w = 0; w < threads; w += 32) {
      int waiting = 0, live = 0;
      for (int t = w; t < w + 32; t++) { live += fibers[t].state != DONE; waiting += fibers[t].state == WARP; at_barrier += fibers[t].state == BLOCK; }
      alive += live;
      for (int t = w + 1; live && waiting == live && t < w + 32; t++)
        if (fibers[t].state == WARP && fibers[w].state == WARP && strcmp(fibers[t].what, fibers[w].what)) {
          fprintf(stderr, "lanes of warp %d meet for %s and for %s\n", w / 32, fibers[w].what, fibers[t].what);
          exit(3);
        }
      if (live && waiting == live) { for (int t = w; t < w + 32; t++) if (fibers[t].state == WARP) fibers[t].state = RUN; ran = true; }
    }
    // a warpgroup's threads wait for products together
    for (int g = 0; g + 128 <= threads; g += 128) {
      int waiting = 0;
      for (int t = g; t < g + 128; t++) waiting += fibers[t].state == GROUP;
      if (waiting < 128) continue;
      finish_products(groups[g / 128], (size_t)fibers[g].waits);
      for (int t = g; t < g + 128; t++) fibers[t].state = RUN;
      ran = true;
    }
    done = alive == 0;
    if (done) return;
    if (at_barrier == alive) { for (Fiber& f : fibers) if (f.state == BLOCK) f.state = RUN; ran = true; }
    if (!ran) {
      fprintf(stderr, "deadlock: threads of a block wait for different things\n");
      for (int t = 0; t < threads; t += 32) fprintf(stderr, "warp %d is in state %d\n", t / 32, fibers[t].state);
      exit(3);
    }
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
alignas(1024) inline unsigned char shared_memory[232 * 1024];
inline int thread() { return emulator::current; }
inline int block() { return emulator::block; }
inline int lane() { return emulator::current & 31; }
inline void barrier() { emulator::wait(emulator::BLOCK); }
// The lanes of a warp meet, all for the same thing: code in which some have gone another way hangs on a device.
inline void warp_barrier(const char* what = "a shuffle") { emulator::fibers[emulator::current].what = what; emulator::wait(emulator::WARP); }
inline int warp() { warp_barrier("its number"); return emulator::current >> 5; }
inline int own_warp() { return emulator::current >> 5; }
inline float bits_to_float(u32 x) { float f; memcpy(&f, &x, 4); return f; }
inline u32 float_to_bits(float x) { u32 u; memcpy(&u, &x, 4); return u; }
inline u32* mine() { return emulator::exchange[own_warp()][lane()]; }
inline u32* theirs(int lane) { return emulator::exchange[own_warp()][lane]; }
inline float shuffle_xor(float x, int mask) {
  mine()[0] = float_to_bits(x);
  warp_barrier();
  float y = bits_to_float(theirs(lane() ^ mask)[0]);
  warp_barrier();
  return y;
}
inline float exp2(float x) { return ::exp2f(x); }
inline float reciprocal(float x) { return 1.0f / x; }
inline float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
inline float log(float x) { return ::logf(x); }
inline float absolute(float x) { return ::fabsf(x); }
inline float square_root(float x) { return ::sqrtf(x); }
inline float reciprocal_root(float x) { return 1.0f / ::sqrtf(x); }
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
struct Hint { u64 policy; };
inline void copy16(u32 to, const void* from, int bytes, Hint) { copy16(to, from, bytes); }
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
inline u64 evicted_first() { return 1; }
inline u64 opaque(u64 policy) { cleave::warp_barrier("a policy"); return policy; }
inline u32 arrive(u32* counter) { return (*counter)++; }

// ---- compute capability 9.0 --------------------------------------------------------------------------------------
struct TensorMap { u64 address, rank, element, size[5], stride[5], box[5]; };
// Shared memory starts at no multiple of 1024 bytes here, as it may there.
constexpr u32 SHARED_START = 0x480;
inline void fail(const char* what) { fprintf(stderr, "%s\n", what); exit(4); }
inline unsigned char* shared_at(u32 at, u32 bytes) {
  if (at < SHARED_START || at + bytes > SHARED_START + sizeof shared_memory) fail("outside of shared memory");
  return shared_memory + (at - SHARED_START);
}
// Where the byte at an address of a swizzled tile lies: bits 4 to 6 of the address, exclusive or bits 7 to 9.
inline u32 swizzled(u32 at) { return at ^ ((at >> 7 & 7) << 4); }
inline u32 shared_start() { return SHARED_START; }
inline int grid() { return emulator::grid; }
inline int uniform(int x) {
  mine()[0] = (u32)x;
  warp_barrier();
  const int y = (int)theirs(0)[0];
  warp_barrier();
  return y;
}
inline int claim(u32* counter, int last) { const u32 before = *counter; *counter = before >= (u32)last ? 0 : before + 1; return (int)before; }
inline int read_shared(u32 at) { int x; memcpy(&x, shared_at(at, 4), 4); return x; }
inline void write_shared(u32 at, int x) { memcpy(shared_at(at, 4), &x, 4); }
inline void write_shared8(u32 at, u32 x, u32 y) { const u32 v[2] = {x, y}; memcpy(shared_at(at, 8), v, 8); }
inline void write_shared16(u32 at, u32 x, u32 y, u32 z, u32 w) { const u32 v[4] = {x, y, z, w}; memcpy(shared_at(at, 16), v, 16); }
inline void read_shared16(u32 at, u32 (&x)[4]) { memcpy(x, shared_at(at, 16), 16); }
inline emulator::Barrier& barrier_at(u32 b) {
  auto found = emulator::barriers.find(b);
  if (found == emulator::barriers.end()) fail("a barrier that is not initialised");
  return found->second;
}
inline void barrier_init(u32 b, int arrivals) {
  if (b % 8) fail("misaligned barrier");
  shared_at(b, 8);
  emulator::barriers[b] = {arrivals, arrivals, 0, 0, {}};
}
inline void barriers_ready() {}
inline void barrier_settle(emulator::Barrier& b) {
  if (b.missing == 0 && b.bytes == 0) { b.missing = b.arrivals; b.phase ^= 1; }
}
inline void barrier_arrive(u32 b) {
  auto& x = barrier_at(b);
  if (x.missing == 0) fail("more arrivals than a barrier's phase takes");
  x.missing--;
  barrier_settle(x);
}
inline void barrier_expect(u32 b, u32 bytes) { barrier_at(b).bytes += bytes; barrier_arrive(b); }
// Calls f(shared byte, global byte or null where it is outside) for every element of a box.
template <class F> u64 each_of_box(const emulator::Box& c, F f) {
  const TensorMap& m = *(const TensorMap*)c.map;
  u64 index[5] = {};
  u32 to = c.to;
  const u64 total = m.box[0] * m.box[1] * m.box[2] * m.box[3] * m.box[4];
  for (u64 e = 0; e < total; e++, to += (u32)m.element) {
    u64 offset = 0;
    bool inside = true;
    for (int d = 0; d < (int)m.rank; d++) {
      const int64_t at = (int64_t)c.at[d] + (int64_t)index[d];
      inside = inside && at >= 0 && at < (int64_t)m.size[d];
      offset += (u64)at * m.stride[d];
    }
    f(shared_at(swizzled(to), (u32)m.element), inside ? (char*)m.address + offset : nullptr, m.element);
    for (int d = 0; d < 5 && ++index[d] == m.box[d]; d++) index[d] = 0;
  }
  return total * m.element;
}
inline void land(emulator::Barrier& barrier) {
  for (auto& c : barrier.boxes)
    barrier.bytes -= (int64_t)each_of_box(c, [](unsigned char* to, const char* from, u64 n) { if (from) memcpy(to, from, n); else memset(to, 0, n); });
  barrier.boxes.clear();
}
inline void barrier_wait(u32 b, int parity) {
  emulator::poll([b, parity] {
    auto& x = barrier_at(b);
    if (!x.boxes.empty()) { land(x); barrier_settle(x); }
    return x.phase != parity;
  });
}
inline void publish_shared() {}
// Named barriers: as many as their threads, counted by rounds.
inline std::map<int, std::pair<int, int>> named;
inline void barrier_of(int id, int threads) {
  if (id < 1 || id > 15) fail("no such barrier");
  auto& n = named[id];
  const int round = n.second;
  if (++n.first == threads) { n.first = 0; n.second++; }
  emulator::poll([id, round] { return named[id].second != round; });
}
inline void prefetch_map(const TensorMap&) {}
inline emulator::Box box_at(u32 to, const TensorMap& m, std::vector<int> at) {
  // products ask for the multiple; the swizzle follows from addresses, and a row may start anywhere
  if (to % (m.box[1] > 1 ? 1024 : 128)) fail("a box that starts at no multiple of 1024 bytes");
  if (at.size() != m.rank) fail("coordinates of another rank");
  if (m.box[0] * m.element != 128) fail("a box of other than 128 bytes a row");
  emulator::Box box = {to, &m, {}};
  for (size_t d = 0; d < at.size(); d++) box.at[d] = at[d];
  return box;
}
inline void copy_coordinates(u32 to, const TensorMap& m, u32 b, std::vector<int> at) {
  const emulator::Box box = box_at(to, m, at);
  const u32 bytes = (u32)(m.box[0] * m.box[1] * m.box[2] * m.box[3] * m.box[4] * m.element);
  memset(shared_at(to, bytes), 0xff, bytes);
  barrier_at(b).boxes.push_back(box);
}
template <class... C> void copy_box(u32 to, const TensorMap& m, u32 b, C... at) { copy_coordinates(to, m, b, {at...}); }
// A store reads shared memory when it is waited for.
template <class... C> void store_box(const TensorMap& m, u32 from, C... at) { emulator::fibers[thread()].open_stores.push_back(box_at(from, m, {at...})); }
inline void stores_commit() { auto& f = emulator::fibers[thread()]; f.stores.push_back(f.open_stores); f.open_stores.clear(); }
template <int N> void stores_read() {
  auto& all = emulator::fibers[thread()].stores;
  while ((int)all.size() > N) {
    for (auto& box : all.front()) each_of_box(box, [](unsigned char* from, char* to, u64 n) { if (to) memcpy(to, from, n); });
    all.erase(all.begin());
  }
}
inline void store_matrices(u32 at, u32 x, u32 y, u32 z, u32 w) {
  if (at % 16) fail("misaligned matrix row");
  mine()[0] = at;
  warp_barrier();
  const u32 v[4] = {x, y, z, w};
  for (int m = 0; m < 4; m++) memcpy(shared_at(theirs(8 * m + lane() / 4)[0], 16) + 4 * (lane() % 4), &v[m], 4);
  warp_barrier();
}

inline emulator::Group& own_group() { return emulator::groups[thread() / 128]; }
inline void products_begin() {}
inline emulator::Product& own_product(bool& first) {
  auto& g = own_group();
  auto& f = emulator::fibers[thread()];
  const int at = f.products++;
  first = at == (int)g.open.size();
  if (first) g.open.emplace_back();
  if (at >= (int)g.open.size()) fail("threads of a warpgroup multiply out of step");
  return g.open[at];
}
template <class T> constexpr int is_half() { return sizeof(T) == sizeof(f16) && std::is_same<T, f16>::value; }
template <bool AMN, bool BMN, class T, int N> void wgmma(float (&d)[N][4], u64 a, u64 b, int add, T) {
  bool first;
  auto& p = own_product(first);
  if (first) { p.columns = 8 * N; p.add = add; p.a_mn = AMN; p.b_mn = BMN; p.half = is_half<T>(); p.a = a; p.b = b; p.packed = false; }
  if (p.a != a || p.b != b || p.add != add || p.columns != 8 * N) fail("threads of a warpgroup multiply different things");
  p.d[thread() % 128] = &d[0][0];
}
template <bool BMN, class T, int N> void wgmma(float (&d)[N][4], const u32 (&a)[4], u64 b, int add, T) {
  bool first;
  auto& p = own_product(first);
  if (first) { p.columns = 8 * N; p.add = add; p.b_mn = BMN; p.half = is_half<T>(); p.b = b; p.packed = true; }
  if (p.b != b || p.add != add || p.columns != 8 * N) fail("threads of a warpgroup multiply different things");
  const int t = thread() % 128;
  p.d[t] = &d[0][0];
  p.packed_at[t] = a;
  memcpy(p.packed_was[t], a, 16);
}
// The group is committed when the last thread commits.
inline void products_commit() {
  auto& g = own_group();
  emulator::fibers[thread()].products = 0;
  const int round = g.round;
  if (++g.arrived == 128) { g.committed.push_back(g.open); g.open.clear(); g.arrived = 0; g.round++; }
  emulator::poll([&g, round] { return g.round != round; });
}
template <int N> void products_wait() { emulator::fibers[thread()].waits = N; emulator::wait(emulator::GROUP); }
template <class T, int N> void pin(T (&)[N][4]) {}
inline u32 recomputed(u32 x) { return x; }
template <int N> void raise_registers() {}
template <int N> void lower_registers() {}
// An element of an operand in shared memory: `m` of the rows (or columns of the product), `k` of the contracted dim.
inline float operand_element(u64 descriptor, bool mn, int m, int k, bool half) {
  const u32 start = (u32)(descriptor & 0x3fff) << 4, leading = (u32)(descriptor >> 16 & 0x3fff) << 4, stride = (u32)(descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1) fail("a descriptor without the 128-byte swizzle");
  // K-major: rows of 128 bytes along k, groups of 8 rows `stride` apart. MN-major: 64 of m in 128 bytes, groups of 8 of k `stride` apart,
  // blocks of 64 of m `leading` apart.
  const u32 at = mn ? start + (u32)(m / 64) * leading + (u32)(k / 8) * stride + (u32)(k % 8) * 128 + (u32)(m % 64) * 2
                    : start + (u32)(m / 8) * stride + (u32)(m % 8) * 128 + (u32)k * 2;
  if (!mn && (start & 0x7f) + (u32)k * 2 >= 128) fail("a step beyond the swizzle's row");
  unsigned short bits;
  memcpy(&bits, shared_at(swizzled(at), 2), 2);
  f16 h; bf16 b;
  h.bits = b.bits = bits;
  return half ? to_float(h) : widen(b);
}
} // namespace cleave
inline void emulator::finish_products(emulator::Group& group, size_t younger) {
  using namespace cleave;
  static std::vector<float> a(64 * 16), b(256 * 16);
  while (group.committed.size() > younger) {
    for (auto& p : group.committed.front()) {
      for (int t = 0; t < 128; t++)
        if (p.packed && memcmp(p.packed_at[t], p.packed_was[t], 16)) fail("a packed operand was written while a product reads it");
      for (int m = 0; m < 64; m++)
        for (int k = 0; k < 16; k++) {
          if (!p.packed) { a[m * 16 + k] = operand_element(p.a, p.a_mn, m, k, p.half); continue; }
          const u32 r = p.packed_was[(m / 16 * 32) + m % 8 * 4 + k % 8 / 2][(m % 16 / 8) + 2 * (k / 8)];
          f16 h; bf16 w;
          h.bits = w.bits = (unsigned short)(r >> (16 * (k % 2)));
          a[m * 16 + k] = p.half ? to_float(h) : widen(w);
        }
      for (int n = 0; n < p.columns; n++)
        for (int k = 0; k < 16; k++) b[n * 16 + k] = operand_element(p.b, p.b_mn, n, k, p.half);
      for (int m = 0; m < 64; m++)
        for (int n = 0; n < p.columns; n++) {
          float sum = 0;
          for (int k = 0; k < 16; k++) sum += a[m * 16 + k] * b[n * 16 + k];
          float& d = p.d[m / 16 * 32 + m % 8 * 4 + n % 8 / 2][n / 8 * 4 + m % 16 / 8 * 2 + n % 2];
          d = p.add ? d + sum : sum;
        }
    }
    group.committed.erase(group.committed.begin());
  }
}
namespace cleave {
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
  template <class P> auto maps_of(P& p, int) -> decltype(&p.maps[0]) { return &p.maps[0]; }
  template <class P> cleave::TensorMap* maps_of(P&, long) { return nullptr; }
  // blocks, threads, maps as (buffer, first byte, element, rank, five times size, stride, box), words as (buffer + 1 or 0, value)
  template <class P, class F> void launch(F kernel) {
    const uint64_t blocks = number(), threads = number(), maps = number();
    static P p;
    for (uint64_t i = 0; i < maps; i++) {
      cleave::TensorMap& m = maps_of(p, 0)[i];
      const uint64_t b = number();
      m.address = (uint64_t)aligned(buffers[b]) + number();
      m.element = number();
      m.rank = number();
      if (m.address % 16) { fprintf(stderr, "a tensor map at a misaligned address\n"); exit(4); }
      for (int d = 0; d < 5; d++) {
        m.size[d] = number(); m.stride[d] = number(); m.box[d] = number();
        if ((d > 0 && m.stride[d] % 16) || m.box[d] > 256 || m.box[d] == 0) { fprintf(stderr, "a tensor map that cannot be encoded\n"); exit(4); }
      }
    }
    const uint64_t words = number();
    for (uint64_t i = 0; i < words; i++) { const uint64_t b = number(), v = number(); p.w[i] = b ? (uint64_t)aligned(buffers[b - 1]) + v : v; }
    for (uint64_t b = 0; b < blocks; b++) {
      memset(cleave::shared_memory, 0xff, sizeof cleave::shared_memory);
      emulator::block = (int)b;
      emulator::grid = (int)blocks;
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
