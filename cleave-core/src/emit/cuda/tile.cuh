// Cleave tile primitives, part 2: element types, shared tiles, values in registers, products of matrices.
//
// Registers hold values in the layout of the accumulators of mma.sync: in each 16 x 8 block lane l holds rows l / 4 and
// l / 4 + 8, columns 2 (l % 4) and 2 (l % 4) + 1. `Fragment(i, j, c)`: row block i, column block j, element c (c / 2 the
// row, c % 2 the column). `Rows(i, h)` is replicated over the four lanes of a row, `Columns(j, h)` over the lanes of a column.
namespace cleave {
constexpr float LOG2E = 1.4426950408889634f;
CLEAVE_DEVICE float infinity() { return bits_to_float(0x7f800000u); }
CLEAVE_DEVICE float not_a_number() { return bits_to_float(0x7fffffffu); }
CLEAVE_DEVICE float exp(float x) { return exp2(x * LOG2E); }
CLEAVE_DEVICE float sigmoid(float x) { return reciprocal(1.0f + exp(-x)); }
// To three units of the last place, without a branch: near 0 a polynomial of least relative error (fitted to x < 0.6), else by exp.
CLEAVE_DEVICE float tanh(float x) {
  const float u = x * x, size = absolute(x);
  const float p = multiply_add(multiply_add(multiply_add(0.015612629f, u, -0.052211806f), u, 0.13313116f), u, -0.33332598f);
  const float large = multiply_add(-2.0f, reciprocal(exp2(size * (2.0f * LOG2E)) + 1.0f), 1.0f);
  return size < 0.6f ? multiply_add(p * u, x, x) : x < 0.0f ? -large : large;
}
// A quotient whose numerator wins where it is 0.
CLEAVE_DEVICE float quotient(float numerator, float reciprocal) { return numerator == 0.0f ? 0.0f : numerator * reciprocal; }
CLEAVE_DEVICE int least(int a, int b) { return a < b ? a : b; }
CLEAVE_DEVICE int most(int a, int b) { return a > b ? a : b; }
CLEAVE_DEVICE i64 least(i64 a, i64 b) { return a < b ? a : b; }
CLEAVE_DEVICE i64 most(i64 a, i64 b) { return a > b ? a : b; }
CLEAVE_DEVICE i64 floor_divide(i64 a, i64 b) { i64 q = a / b; return q * b > a ? q - 1 : q; }   // b > 0
CLEAVE_DEVICE i64 ceil_divide(i64 a, i64 b) { return -floor_divide(-a, b); }
CLEAVE_DEVICE int within(i64 x, int low, int high) { return x < low ? low : x > high ? high : (int)x; }

CLEAVE_DEVICE float to_float(float x) { return x; }
CLEAVE_DEVICE float to_float(int x) { return (float)x; }
CLEAVE_DEVICE float to_float(bf16 x) { return bits_to_float((u32)x.bits << 16); }
CLEAVE_DEVICE void put(float* p, float x) { *p = x; }
CLEAVE_DEVICE void put(f16* p, float x) { *p = to_f16(x); }
CLEAVE_DEVICE void put(bf16* p, float x) { *p = to_bf16(x); }
CLEAVE_DEVICE void put_pair(float* p, float x, float y) { float2 v; v.x = x; v.y = y; *(float2*)p = v; }
CLEAVE_DEVICE void put_pair(f16* p, float x, float y) { *(u32*)p = pack(x, y, f16()); }
CLEAVE_DEVICE void put_pair(bf16* p, float x, float y) { *(u32*)p = pack(x, y, bf16()); }
CLEAVE_DEVICE void unpack(u32 r, float& x, float& y, f16) { f16 a, b; a.bits = (unsigned short)r; b.bits = (unsigned short)(r >> 16); x = to_float(a); y = to_float(b); }
CLEAVE_DEVICE void unpack(u32 r, float& x, float& y, bf16) { x = bits_to_float(r << 16); y = bits_to_float(r & 0xffff0000u); }

// Frames: see the table of the compiler. exp(x - from) becomes exp(x - to), `degree` times; both may be -inf.
CLEAVE_DEVICE float usable_shift(float g) { return g == -infinity() ? -1e30f : g; }
CLEAVE_DEVICE float shift(float from, float to, float degree) { return exp2((from - usable_shift(to)) * (degree * LOG2E)); }
CLEAVE_DEVICE float translation(float from, float to) { return from == to || from != from || to != to ? 0.0f : from - to; }

struct yes { static constexpr bool value = true; };
struct no { static constexpr bool value = false; };

// ---- values in registers -------------------------------------------------------------------------------
template <int BLOCKS, int COLUMNS> struct Fragment {
  float v[BLOCKS][COLUMNS / 8][4];
  CLEAVE_DEVICE float& operator()(int i, int j, int c) { return v[i][j][c]; }
  CLEAVE_DEVICE const float& operator()(int i, int j, int c) const { return v[i][j][c]; }
};
template <int BLOCKS> struct Rows {
  float v[BLOCKS][2];
  CLEAVE_DEVICE float& operator()(int i, int h) { return v[i][h]; }
  CLEAVE_DEVICE const float& operator()(int i, int h) const { return v[i][h]; }
};
template <int COLUMNS> struct Columns {
  float v[COLUMNS / 8][2];
  CLEAVE_DEVICE float& operator()(int j, int h) { return v[j][h]; }
  CLEAVE_DEVICE const float& operator()(int j, int h) const { return v[j][h]; }
};
// A column of each row, below which a predicate holds.
template <int BLOCKS> struct Limits {
  int v[BLOCKS][2];
  CLEAVE_DEVICE int operator()(int i, int h) const { return v[i][h]; }
};
// An index for each column.
template <int COLUMNS> struct Indices {
  int v[COLUMNS / 8][2];
  CLEAVE_DEVICE int operator()(int j, int h) const { return v[j][h]; }
};
template <int N, class F> CLEAVE_DEVICE void each(Indices<N>& x, F f) {
CLEAVE_UNROLL
  for (int j = 0; j < N / 8; j++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) x.v[j][h] = f(j, h);
}
template <int B, class F> CLEAVE_DEVICE void each(Limits<B>& x, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) x.v[i][h] = f(i, h);
}
template <int B, int N, class F> CLEAVE_DEVICE void each(Fragment<B, N>& x, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int j = 0; j < N / 8; j++)
CLEAVE_UNROLL
      for (int c = 0; c < 4; c++) x.v[i][j][c] = f(i, j, c);
}
template <int B, class F> CLEAVE_DEVICE void each(Rows<B>& x, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) x.v[i][h] = f(i, h);
}
template <int N, class F> CLEAVE_DEVICE void each(Columns<N>& x, F f) {
CLEAVE_UNROLL
  for (int j = 0; j < N / 8; j++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) x.v[j][h] = f(j, h);
}
template <class F> CLEAVE_DEVICE void each(float& x, F f) { x = f(); }
template <class X> CLEAVE_DEVICE void fill(X& x, float value) { each(x, [=](auto...) { return value; }); }

struct Sum { CLEAVE_DEVICE float operator()(float a, float b) const { return a + b; } };
struct Greatest { CLEAVE_DEVICE float operator()(float a, float b) const { return greater(a, b); } };
struct Least { CLEAVE_DEVICE float operator()(float a, float b) const { return lesser(a, b); } };
// x(i, h) = this lane's share of the reduction of f over N columns, x itself included.
template <int N, class Op, int B, class F> CLEAVE_DEVICE void fold_columns(Rows<B>& x, Op op, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) {
      float even = f(i, 0, 2 * h), odd = f(i, 0, 2 * h + 1);
CLEAVE_UNROLL
      for (int j = 1; j < N / 8; j++) { even = op(even, f(i, j, 2 * h)); odd = op(odd, f(i, j, 2 * h + 1)); }
      x.v[i][h] = op(x.v[i][h], op(even, odd));
    }
}
template <int N, class Op, class F> CLEAVE_DEVICE void fold_columns(float& x, Op op, F f) {
CLEAVE_UNROLL
  for (int j = 0; j < N / 8; j++) x = op(x, op(f(j, 0), f(j, 1)));
}
// Joins the shares of the four lanes of a row.
template <int B, class Op> CLEAVE_DEVICE void join_lanes(Rows<B>& x, Op op) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) {
      x.v[i][h] = op(x.v[i][h], shuffle_xor(x.v[i][h], 1));
      x.v[i][h] = op(x.v[i][h], shuffle_xor(x.v[i][h], 2));
    }
}
template <class Op> CLEAVE_DEVICE void join_lanes(float& x, Op op) { x = op(x, shuffle_xor(x, 1)); x = op(x, shuffle_xor(x, 2)); }
template <class Op> CLEAVE_DEVICE float join_warp(float x, Op op) {
CLEAVE_UNROLL
  for (int mask = 16; mask > 0; mask >>= 1) x = op(x, shuffle_xor(x, mask));
  return x;
}
// Calls f for every element that this lane holds.
template <int B, int N, class F> CLEAVE_DEVICE void visit(const Fragment<B, N>&, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int j = 0; j < N / 8; j++)
CLEAVE_UNROLL
      for (int c = 0; c < 4; c++) f(i, j, c);
}
template <int B, class F> CLEAVE_DEVICE void visit(const Rows<B>&, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) f(i, h);
}
template <int N, class F> CLEAVE_DEVICE void visit(const Columns<N>&, F f) {
CLEAVE_UNROLL
  for (int j = 0; j < N / 8; j++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) f(j, h);
}
template <class F> CLEAVE_DEVICE void visit(const float&, F f) { f(); }
// The greatest value of each row over N columns, of those that count; -inf if none does. `scaled`: of the values times a scale
// that is the same for all, whose sign is that of no one's choice.
template <int N, int B, class F, class C> CLEAVE_DEVICE void greatest(Rows<B>& x, F value, C counts) {
  fill(x, -infinity());
  fold_columns<N>(x, Greatest(), [&](int i, int j, int c) { return counts(i, j, c) ? value(i, j, c) : -infinity(); });
  join_lanes(x, Greatest());
}
template <int N, int B, class F, class C> CLEAVE_DEVICE void greatest_scaled(Rows<B>& x, float scale, F value, C counts) {
  if (scale >= 0.0f) {
    greatest<N>(x, value, counts);
  } else {
    fill(x, infinity());
    fold_columns<N>(x, Least(), [&](int i, int j, int c) { return counts(i, j, c) ? value(i, j, c) : infinity(); });
    join_lanes(x, Least());
    each(x, [&](int i, int h) { return x(i, h) == infinity() ? -infinity() : x(i, h); });
  }
  each(x, [&](int i, int h) { return x(i, h) == -infinity() ? x(i, h) : x(i, h) * scale; });
}
// The same where the scale is known not to be negative.
template <int N, int B, class F, class C> CLEAVE_DEVICE void greatest_scaled_up(Rows<B>& x, float scale, F value, C counts) {
  greatest<N>(x, value, counts);
  each(x, [&](int i, int h) { return x(i, h) == -infinity() ? x(i, h) : x(i, h) * scale; });
}
// The mean of each row over the columns that count; not a number if none does.
template <int N, int B, class F, class C> CLEAVE_DEVICE void mean(Rows<B>& x, F value, C counts) {
  Rows<B> count;
  fill(x, 0.0f);
  fill(count, 0.0f);
  fold_columns<N>(x, Sum(), [&](int i, int j, int c) { return counts(i, j, c) ? value(i, j, c) : 0.0f; });
  fold_columns<N>(count, Sum(), [&](int i, int j, int c) { return counts(i, j, c) ? 1.0f : 0.0f; });
  join_lanes(x, Sum());
  join_lanes(count, Sum());
  each(x, [&](int i, int h) { return count(i, h) > 0.0f ? x(i, h) / count(i, h) : not_a_number(); });
}
CLEAVE_DEVICE int row_of_lane() { return lane() >> 2; }
CLEAVE_DEVICE int column_of_lane() { return (lane() & 3) * 2; }

// ---- shared tiles ----------------------------------------------------------------------------------------
// ROWS x COLUMNS values at a byte offset of shared memory, row-major, the 16-byte chunks of a row swizzled so that the same
// chunk of eight consecutive rows lies in different banks.
template <class T, int ROWS, int COLUMNS> struct Tile {
  static constexpr int PER_CHUNK = 16 / (int)sizeof(T), CHUNKS = COLUMNS / PER_CHUNK, BYTES = ROWS * COLUMNS * (int)sizeof(T);
  static_assert(COLUMNS % PER_CHUNK == 0, "a row is whole chunks");
  u32 at;
  CLEAVE_DEVICE u32 chunk(int row, int c) const {
    const int s = CHUNKS % 8 == 0 ? row & 7 : CHUNKS % 4 == 0 ? (row >> 1) & 3 : CHUNKS % 2 == 0 ? (row >> 2) & 1 : 0;
    return at + (u32)(row * CHUNKS + (c ^ s)) * 16u;
  }
  // The offset of chunk c + k / PER_CHUNK, given that of chunk c (both in the same row, k a multiple of 16 values' bytes, c's bits
  // below k's): the swizzle and the columns only meet in the bits that an exclusive or keeps apart.
  static constexpr u32 MIXED = (CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : CHUNKS % 2 == 0 ? 2 : 1) * 16 - 1;
  static constexpr u32 ROW = CHUNKS * 16;
  CLEAVE_DEVICE static u32 along(u32 chunk, int k) {
    const u32 bytes = (u32)k * (u32)sizeof(T);
    return (chunk ^ (bytes & MIXED)) + (bytes & ~MIXED);
  }
  CLEAVE_DEVICE u32 element(int row, int column) const { return chunk(row, column / PER_CHUNK) + (u32)(column % PER_CHUNK) * (u32)sizeof(T); }
  CLEAVE_DEVICE float get(int row, int column) const { return to_float(*(const T*)(shared_memory + element(row, column))); }
  CLEAVE_DEVICE void set(int row, int column, T x) const { *(T*)(shared_memory + element(row, column)) = x; }
};
// Fills a tile from global memory, zero where a position is not in [row_low, row_high) x [column_low, column_high).
// `row(r)` is the offset in elements of the tile's row r. VECTOR: chunks are contiguous and aligned.
template <int THREADS, class T, int R, int C, class F, class P = Kept>
CLEAVE_DEVICE void load_chunks(const Tile<T, R, C>& tile, const T* from, int row_low, int row_high, int column_high, F row, P policy = P()) {
  constexpr int CHUNKS = Tile<T, R, C>::CHUNKS, PER = Tile<T, R, C>::PER_CHUNK, TOTAL = R * CHUNKS;
CLEAVE_UNROLL
  for (int e = 0; e < (TOTAL + THREADS - 1) / THREADS; e++) {
    const int at = e * THREADS + thread();
    if (TOTAL % THREADS != 0 && at >= TOTAL) break;
    const int r = at / CHUNKS, c = at % CHUNKS;
    const int values = r < row_low || r >= row_high ? 0 : most(least(column_high - c * PER, PER), 0);
    copy16(tile.chunk(r, c), from + (values > 0 ? row(r) + c * PER : 0), values * (int)sizeof(T), policy);
  }
}
// The same where rows follow each other at `stride` elements from `from`, and a thread stays in one column of chunks: a pointer
// that moves on takes the place of an address for each chunk. Where nothing is read the pointer may be outside.
template <int THREADS, class T, int R, int C, class P = Kept>
CLEAVE_DEVICE void load_rows(const Tile<T, R, C>& tile, const T* from, i64 stride, int row_low, int row_high, int column_high, P policy = P()) {
  constexpr int CHUNKS = Tile<T, R, C>::CHUNKS, PER = Tile<T, R, C>::PER_CHUNK;
  if constexpr (THREADS % CHUNKS == 0) {
    constexpr int STEP = THREADS / CHUNKS;
    const int first = thread() / CHUNKS, c = thread() % CHUNKS;
    const int bytes = most(least(column_high - c * PER, PER), 0) * (int)sizeof(T);
    const T* p = from + (first * stride + c * PER);
    const i64 step = STEP * stride;
    const u32 to = tile.chunk(first, c);  // eight rows on, the swizzle is the same
CLEAVE_UNROLL
    for (int e = 0; e < (R + STEP - 1) / STEP; e++) {
      const int r = first + e * STEP;
      if (R % STEP != 0 && r >= R) break;
      copy16(STEP % 8 == 0 ? to + (u32)(e * STEP) * Tile<T, R, C>::ROW : tile.chunk(r, c), p, r < row_low || r >= row_high ? 0 : bytes, policy);
      p += step;
    }
  } else {
    load_chunks<THREADS>(tile, from, row_low, row_high, column_high, [&](int r) { return r * stride; }, policy);
  }
}
// How the second cache treats what is read once: it goes first, so that what else is there stays. For long streams (200 MB on an H200) any
// policy, that of all loads too, costs an eighth of the rate: none.
CLEAVE_DEVICE u64 stream_policy(i64 bytes) {
  const u64 first = evicted_first();
  return opaque(bytes < (i64)200000000 ? first : 0);
}
// By a policy, or by none if it is 0.
template <int THREADS, class T, int R, int C, class F>
CLEAVE_DEVICE void load_chunks(const Tile<T, R, C>& tile, const T* from, int row_low, int row_high, int column_high, F row, u64 policy) {
  if (policy) load_chunks<THREADS>(tile, from, row_low, row_high, column_high, row, Hint{policy});
  else load_chunks<THREADS>(tile, from, row_low, row_high, column_high, row, Kept());
}
template <int THREADS, class T, int R, int C>
CLEAVE_DEVICE void load_rows(const Tile<T, R, C>& tile, const T* from, i64 stride, int row_low, int row_high, int column_high, u64 policy) {
  if (policy) load_rows<THREADS>(tile, from, stride, row_low, row_high, column_high, Hint{policy});
  else load_rows<THREADS>(tile, from, stride, row_low, row_high, column_high, Kept());
}
template <int THREADS, class T, int R, int C, class F>
CLEAVE_DEVICE void load_elements(const Tile<T, R, C>& tile, const T* from, int row_low, int row_high, int column_low, int column_high, F offset) {
CLEAVE_ONCE
  for (int at = thread(); at < R * C; at += THREADS) {
    const int r = at / C, c = at % C;
    T x = T();
    if (r >= row_low && r < row_high && c >= column_low && c < column_high) x = from[offset(r, c)];
    tile.set(r, c, x);
  }
}
CLEAVE_DEVICE bool aligned16(const void* p) { return ((u64)p & 15) == 0; }

// ---- matrix products ---------------------------------------------------------------------------------------
// The A operand of a product with K columns: packed pairs (16-bit types), or f32 as it is.
template <class T, int BLOCKS, int K> struct Packed { u32 v[BLOCKS][K / 16][4]; };
template <int BLOCKS, int K> struct Packed<float, BLOCKS, K> { float v[BLOCKS][K / 8][4]; };

template <class T, int B, int K, class F> CLEAVE_DEVICE void pack_fragment(Packed<T, B, K>& p, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int k = 0; k < K / 16; k++)
CLEAVE_UNROLL
      for (int h = 0; h < 4; h++) p.v[i][k][h] = pack(f(i, 2 * k + (h >> 1), 2 * (h & 1)), f(i, 2 * k + (h >> 1), 2 * (h & 1) + 1), T());
}
template <int B, int K, class F> CLEAVE_DEVICE void pack_fragment(Packed<float, B, K>& p, F f) {
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int k = 0; k < K / 8; k++)
CLEAVE_UNROLL
      for (int c = 0; c < 4; c++) p.v[i][k][c] = f(i, k, c);
}
// The chunk that a lane names for a step of an operand. A: rows of the product by k; stored [row][k], or transposed [k][row].
template <bool TRANSPOSED, class T, int R, int C> CLEAVE_DEVICE u32 lane_of_a(const Tile<T, R, C>& t, int row, int k) {
  const int l = lane();
  return TRANSPOSED ? t.chunk(k + (l & 7) + ((l >> 4) << 3), (row >> 3) + ((l >> 3) & 1)) : t.chunk(row + (l & 15), (k >> 3) + (l >> 4));
}
// B: k by 16 columns of the product; stored [column][k], or transposed [k][column].
template <bool TRANSPOSED, class T, int R, int C> CLEAVE_DEVICE u32 lane_of_b(const Tile<T, R, C>& t, int k, int column) {
  const int l = lane();
  return TRANSPOSED ? t.chunk(k + (l & 15), (column >> 3) + (l >> 4)) : t.chunk(column + (l & 7) + ((l >> 4) << 3), (k >> 3) + ((l >> 3) & 1));
}
// A lane's chunk moved on by rows and columns of the product's operand (multiples of 16): `across` is the dim that is stored
// in rows, `along` the one in columns.
template <class T, int R, int C> CLEAVE_DEVICE u32 moved(const Tile<T, R, C>&, u32 chunk, int across, int along) {
  return Tile<T, R, C>::along(chunk, along) + (u32)across * Tile<T, R, C>::ROW;
}
template <bool TRANSPOSED, class T, int R, int C> CLEAVE_DEVICE void load_a(u32 (&a)[4], const Tile<T, R, C>& t, u32 first, int row, int k) {
  const u32 at = TRANSPOSED ? moved(t, first, k, row) : moved(t, first, row, k);
  if (TRANSPOSED) load_matrices_transposed(a, at);
  else load_matrices(a, at);
}
// b[0], b[1]: the first 8 columns.
template <bool TRANSPOSED, class T, int R, int C> CLEAVE_DEVICE void load_b(u32 (&b)[4], const Tile<T, R, C>& t, u32 first, int k, int column) {
  const u32 at = TRANSPOSED ? moved(t, first, k, column) : moved(t, first, column, k);
  if (TRANSPOSED) load_matrices_transposed(b, at);
  else load_matrices(b, at);
}
// The f32 steps are 8 wide. Columns 2t and 2t + 1 of A stand for the positions t and t + 4 that the instruction calls for: the
// same permutation of k on both sides leaves the sum as it is, and makes the layout of accumulators the one of A.
template <bool TRANSPOSED, int R, int C> CLEAVE_DEVICE void load_a(float (&a)[4], const Tile<float, R, C>& t, u32, int row, int k) {
CLEAVE_UNROLL
  for (int c = 0; c < 4; c++) {
    const int r = row + row_of_lane() + (c >> 1) * 8, x = k + column_of_lane() + (c & 1);
    a[c] = TRANSPOSED ? t.get(x, r) : t.get(r, x);
  }
}
template <bool TRANSPOSED, int R, int C> CLEAVE_DEVICE void load_b(float (&b)[2], const Tile<float, R, C>& t, int k, int column) {
CLEAVE_UNROLL
  for (int h = 0; h < 2; h++) {
    const int n = column + row_of_lane(), x = k + column_of_lane() + h;
    b[h] = TRANSPOSED ? t.get(x, n) : t.get(n, x);
  }
}
// d += a b with both factors cut in a TF32 value and its remainder; the product of the remainders is below f32's precision. Tensor
// cores cut off where they add, always towards zero: only the eight terms of this step are added there, so that what is lost does not grow with k.
// Elements 1 and 2 of a change places: the instruction counts down a column first.
CLEAVE_DEVICE void multiply_f32(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
  u32 ah[4], al[4], bh[2], bl[2];
CLEAVE_UNROLL
  for (int i = 0; i < 4; i++) {
    const float x = a[i == 1 ? 2 : i == 2 ? 1 : i];
    ah[i] = to_tf32(x);
    al[i] = to_tf32(x - bits_to_float(ah[i]));
  }
CLEAVE_UNROLL
  for (int i = 0; i < 2; i++) { bh[i] = to_tf32(b[i]); bl[i] = to_tf32(b[i] - bits_to_float(bh[i])); }
  float step[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  multiply_tf32(step, al, bh[0], bh[1]);
  multiply_tf32(step, ah, bl[0], bl[1]);
  multiply_tf32(step, ah, bh[0], bh[1]);
CLEAVE_UNROLL
  for (int i = 0; i < 4; i++) d[i] += step[i];
}
// The same of an f32 operand and one whose 16 bits a TF32 value holds, where the result needs no more: one product.
CLEAVE_DEVICE void multiply_mixed(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
  const u32 x[4] = {float_to_bits(a[0]), float_to_bits(a[2]), float_to_bits(a[1]), float_to_bits(a[3])};
  multiply_tf32(d, x, to_tf32(b[0]), to_tf32(b[1]));
}
// d += a b over K values of k; `load(a, i, k)` gives the registers of one step of A.
template <bool BT, bool MIXED, class T, int K, int B, int N, int R, int C, class F>
CLEAVE_DEVICE void multiply_steps(Fragment<B, N>& d, const Tile<T, R, C>& b, int b_k, int b_column, F load, T) {
  const u32 first = lane_of_b<BT>(b, b_k, b_column);
CLEAVE_UNROLL
  for (int k = 0; k < K; k += 16) {
    u32 a[B][4];
CLEAVE_UNROLL
    for (int i = 0; i < B; i++) load(a[i], i, k);
CLEAVE_UNROLL
    for (int n = 0; n < N; n += 16) {
      u32 r[4];
      load_b<BT>(r, b, first, k, n);
CLEAVE_UNROLL
      for (int i = 0; i < B; i++) {
        multiply(d.v[i][n / 8], a[i], r[0], r[1], T());
        if (n + 8 < N) multiply(d.v[i][n / 8 + 1 < N / 8 ? n / 8 + 1 : 0], a[i], r[2], r[3], T());
      }
    }
  }
}
template <bool BT, bool MIXED, class T, int K, int B, int N, int R, int C, class F>
CLEAVE_DEVICE void multiply_steps(Fragment<B, N>& d, const Tile<float, R, C>& b, int b_k, int b_column, F load, float) {
CLEAVE_UNROLL
  for (int k = 0; k < K; k += 8) {
    float a[B][4];
CLEAVE_UNROLL
    for (int i = 0; i < B; i++) load(a[i], i, k);
CLEAVE_UNROLL
    for (int n = 0; n < N; n += 8) {
      float r[2];
      load_b<BT>(r, b, b_k + k, b_column + n);
CLEAVE_UNROLL
      for (int i = 0; i < B; i++)
        if constexpr (MIXED) multiply_mixed(d.v[i][n / 8], a[i], r); else multiply_f32(d.v[i][n / 8], a[i], r);
    }
  }
}
template <bool AT, bool BT, int K, class T, int B, int N, int AR, int AC, int R, int C>
CLEAVE_DEVICE void multiply_tiles(Fragment<B, N>& d, const Tile<T, AR, AC>& a, int a_row, int a_k, const Tile<T, R, C>& b, int b_k, int b_column) {
  if constexpr (sizeof(T) == 2) {
    const u32 first = lane_of_a<AT>(a, a_row, a_k);
    multiply_steps<BT, false, T, K>(d, b, b_k, b_column, [&](auto& r, int i, int k) { load_a<AT>(r, a, first, 16 * i, k); }, T());
  } else {
    constexpr int PIECE = K % 16 == 0 ? 16 : K;  // three products a step: unrolled further they would only make more code
CLEAVE_ONCE
    for (int at = 0; at < K; at += PIECE)
      multiply_steps<BT, false, T, PIECE>(d, b, b_k + at, b_column, [&](auto& r, int i, int k) { load_a<AT>(r, a, 0, a_row + 16 * i, a_k + at + k); }, T());
  }
}
CLEAVE_DEVICE void copy_step(u32 (&to)[4], const u32 (&from)[4]) { CLEAVE_UNROLL for (int c = 0; c < 4; c++) to[c] = from[c]; }
CLEAVE_DEVICE void copy_step(float (&to)[4], const float (&from)[4]) { CLEAVE_UNROLL for (int c = 0; c < 4; c++) to[c] = from[c]; }
template <bool BT, int K, bool MIXED, class T, int B, int N, int R, int C>
CLEAVE_DEVICE void multiply_packed(Fragment<B, N>& d, const Packed<T, B, K>& a, const Tile<T, R, C>& b, int b_k, int b_column) {
  constexpr int STEP = sizeof(T) == 2 ? 16 : 8;
  multiply_steps<BT, MIXED, T, K>(d, b, b_k, b_column, [&](auto& r, int i, int k) { copy_step(r, a.v[i][k / STEP]); }, T());
}
// A tile, as values in registers: rows by columns of the fragment.
template <bool TRANSPOSED, class T, int B, int N, int R, int C> CLEAVE_DEVICE void read_tile(Fragment<B, N>& x, const Tile<T, R, C>& t, int row, int column) {
  if constexpr (sizeof(T) == 2 && N % 16 == 0) {
    const u32 first = lane_of_a<TRANSPOSED>(t, row, column);
CLEAVE_UNROLL
    for (int i = 0; i < B; i++)
CLEAVE_UNROLL
      for (int k = 0; k < N; k += 16) {
        u32 a[4];
        load_a<TRANSPOSED>(a, t, first, 16 * i, k);
CLEAVE_UNROLL
        for (int h = 0; h < 4; h++) unpack(a[h], x.v[i][k / 8 + (h >> 1)][2 * (h & 1)], x.v[i][k / 8 + (h >> 1)][2 * (h & 1) + 1], T());
      }
  } else {
    each(x, [&](int i, int j, int c) {
      const int r = row + 16 * i + row_of_lane() + (c >> 1) * 8, k = column + 8 * j + column_of_lane() + (c & 1);
      return TRANSPOSED ? t.get(k, r) : t.get(r, k);
    });
  }
}

// Writes a fragment whose first column is `column` of `columns`. `row(i, h)`: the offset of a row, negative where there is none.
// `pairs`: the columns are contiguous and pairs aligned.
template <class T, int B, int N, class R> CLEAVE_DEVICE void store_rows(T* to, const Fragment<B, N>& x, int column, int columns, i64 stride, bool pairs, R row) {
  const bool whole = pairs && column - column_of_lane() + N <= columns;
CLEAVE_UNROLL
  for (int i = 0; i < B; i++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) {
      const i64 at = row(i, h);
      if (at < 0) continue;
      if (whole) {
CLEAVE_UNROLL
        for (int j = 0; j < N / 8; j++) put_pair(to + at + column + 8 * j, x.v[i][j][2 * h], x.v[i][j][2 * h + 1]);
      } else {
CLEAVE_UNROLL
        for (int j = 0; j < N / 8; j++) {
          const int k = column + 8 * j;
          if (pairs && k + 1 < columns) put_pair(to + at + k, x.v[i][j][2 * h], x.v[i][j][2 * h + 1]);
          else {
            if (k < columns) put(to + at + k * stride, x.v[i][j][2 * h]);
            if (k + 1 < columns) put(to + at + (k + 1) * stride, x.v[i][j][2 * h + 1]);
          }
        }
      }
    }
}

// ---- split -----------------------------------------------------------------------------------------------
// Whether this block is the last of an item's pieces to arrive; it may then read what the others wrote. Leaves the counter at 0.
CLEAVE_DEVICE bool last_to_arrive(u32* counter, int pieces, u32 flag) {
  barrier();
  u32* last = (u32*)(shared_memory + flag);
  if (thread() == 0) {
    *last = arrive(counter) == (u32)pieces - 1 ? 1u : 0u;
    if (*last) *counter = 0;
  }
  barrier();
  return *last != 0;
}
} // namespace cleave
