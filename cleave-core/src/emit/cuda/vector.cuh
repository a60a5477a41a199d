// Cleave tile primitives, part 3: chunks of neighbouring elements in a thread's registers, for bodies without products of matrices.
namespace cleave {
CLEAVE_DEVICE float of_word(u32 r, int half, bf16) { return bits_to_float(half ? r & 0xffff0000u : r << 16); }
CLEAVE_DEVICE float of_word(u32 r, int half, f16) { f16 x; x.bits = (unsigned short)(half ? r >> 16 : r); return to_float(x); }
CLEAVE_DEVICE float of_word(u32 r, int, float) { return bits_to_float(r); }
CLEAVE_DEVICE float of_word(u32 r, int, int) { return (float)(int)r; }

// W elements of T as they lie in memory: a whole number of 16 bytes.
template <class T, int W> struct Chunk {
  static constexpr int PER_WORD = 4 / (int)sizeof(T), QUADS = W * (int)sizeof(T) / 16;
  static_assert(QUADS * 16 == W * (int)sizeof(T), "a chunk is whole 16 bytes");
  Quad q[QUADS];
  CLEAVE_DEVICE void clear() {
CLEAVE_UNROLL
    for (int i = 0; i < QUADS; i++) q[i] = Quad{{0, 0, 0, 0}};
  }
  CLEAVE_DEVICE float get(int e) const { return of_word(q[e / PER_WORD / 4].r[e / PER_WORD % 4], e % PER_WORD, T()); }
  CLEAVE_DEVICE void load(const T* from) {
CLEAVE_UNROLL
    for (int i = 0; i < QUADS; i++) q[i] = load_quad((const Quad*)from + i);
  }
  CLEAVE_DEVICE void load(const T* from, u64 policy) {
CLEAVE_UNROLL
    for (int i = 0; i < QUADS; i++) q[i] = load_quad((const Quad*)from + i, policy);
  }
  // The thread's own place in shared memory: chunk `i` of a tile of THREADS threads.
  template <int THREADS> CLEAVE_DEVICE void keep(u32 at, int i) const {
CLEAVE_UNROLL
    for (int j = 0; j < QUADS; j++) ((Quad*)(shared_memory + at))[(i * QUADS + j) * THREADS + thread()] = q[j];
  }
  template <int THREADS> CLEAVE_DEVICE void recall(u32 at, int i) {
CLEAVE_UNROLL
    for (int j = 0; j < QUADS; j++) q[j] = ((const Quad*)(shared_memory + at))[(i * QUADS + j) * THREADS + thread()];
  }
};

template <bool STREAM, int W> CLEAVE_DEVICE void store_chunk(float* to, const float (&x)[W]) {
CLEAVE_UNROLL
  for (int i = 0; i < W / 4; i++) {
    Quad q;
CLEAVE_UNROLL
    for (int j = 0; j < 4; j++) q.r[j] = float_to_bits(x[4 * i + j]);
    store_quad<STREAM>((Quad*)to + i, q);
  }
}
template <bool STREAM, class T, int W> CLEAVE_DEVICE void store_chunk(T* to, const float (&x)[W]) {
CLEAVE_UNROLL
  for (int i = 0; i < W / 8; i++) {
    Quad q;
CLEAVE_UNROLL
    for (int j = 0; j < 4; j++) q.r[j] = pack(x[8 * i + 2 * j], x[8 * i + 2 * j + 1], T());
    store_quad<STREAM>((Quad*)to + i, q);
  }
}
} // namespace cleave
