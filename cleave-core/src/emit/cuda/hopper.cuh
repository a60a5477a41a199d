// Cleave tile primitives, part 4: products of a warpgroup, 64 rows by N columns, over tiles that TMA copies.
//
// A tile is blocks of 64 columns, each of `ROWS` rows of 128 bytes, the 16-byte chunks of a row swizzled by the row modulo 8; it starts at a multiple of
// 1024 bytes. An operand is stored with the contracted dim in its columns (K-major), or in its rows (MN-major).
namespace cleave {
// A matrix descriptor without its address: 128-byte swizzle, bytes between neighbouring groups of 8 rows, and between blocks of columns.
CLEAVE_DEVICE u64 descriptor(u32 between_blocks) { return ((u64)1 << 62) | ((u64)(1024 >> 4) << 32) | ((u64)(between_blocks >> 4) << 16); }
CLEAVE_DEVICE u64 described(u64 base, u32 at) { return base | (u64)((at & 0x3FFFF) >> 4); }
// Bytes from a step of 16 of the contracted dim to the first.
template <bool MN, int ROWS> CLEAVE_DEVICE constexpr u32 step_bytes(int k) { return MN ? (u32)k * 128 : (u32)(k / 64 * ROWS * 128 + k % 64 * 2); }
template <bool MN, int ROWS> CLEAVE_DEVICE u64 operand(u32 at) { return described(descriptor(MN ? ROWS * 128 : 16), at); }

// d += a b over K of the contracted dim; the rows of a that this warpgroup has start at `a`.
template <int K, bool AMN, int AROWS, bool BMN, int BROWS, class T, int N>
CLEAVE_DEVICE void multiply_shared(Fragment<1, N>& d, u32 a, u32 b, bool fresh, T) {
  // the descriptors of a resident operand are the same in every step: so many would fill the registers that accumulators need
  if (K > 256) a = recomputed(a);
  const u64 x = operand<AMN, AROWS>(a), y = operand<BMN, BROWS>(b);
CLEAVE_UNROLL
  for (int k = 0; k < K; k += 16)
    wgmma<AMN, BMN>(d.v[0], x + (step_bytes<AMN, AROWS>(k) >> 4), y + (step_bytes<BMN, BROWS>(k) >> 4), k > 0 || !fresh, T());
}
template <int K, bool BMN, int BROWS, class T, int N>
CLEAVE_DEVICE void multiply_registers(Fragment<1, N>& d, Packed<T, 1, K>& a, u32 b, bool fresh) {
  const u64 y = operand<BMN, BROWS>(b);
CLEAVE_UNROLL
  for (int k = 0; k < K; k += 16) wgmma<BMN>(d.v[0], a.v[0][k / 16], y + (step_bytes<BMN, BROWS>(k) >> 4), k > 0 || !fresh, T());
}
template <int N> CLEAVE_DEVICE void pin(Fragment<1, N>& x) { pin(x.v[0]); }
template <class T, int K> CLEAVE_DEVICE void pin(Packed<T, 1, K>& x) { pin(x.v[0]); }

// The tiles of two intervals of positions, each once, from the last to the first: the step that visits each.
struct Visits {
  int end, count, rest, steps;
  CLEAVE_DEVICE int operator()(int step) const { return step < count ? end - 1 - step : rest - 1 - (step - count); }
};
CLEAVE_DEVICE Visits visits(int low, int high, int other_low, int other_high, int tile) {
  const int a = low / tile, b = low < high ? (high + tile - 1) / tile : a, c = other_low / tile, d = other_low < other_high ? (other_high + tile - 1) / tile : c;
  const bool first = c == d || (a < b && b >= d);  // whether the first interval ends later
  const int from = first ? a : c, to = first ? b : d, rest_from = first ? c : a, rest_to = least(first ? d : b, from);
  const int count = to - from, rest = most(rest_to - rest_from, 0);
  return {to, count, rest_to, count + rest};
}

// The row of columns that a box of one row has brought, the 16-byte chunks of which are swizzled by where it lies.
template <int N, class T> CLEAVE_DEVICE void read_columns(Columns<N>& x, u32 at, T) {
  const u32 swizzle = (at >> 7 & 7) << 4, own = at + (u32)(lane() & 3) * 4;
CLEAVE_UNROLL
  for (int j = 0; j < N / 8; j++) unpack((u32)read_shared(own + ((u32)j * 16 ^ swizzle)), x.v[j][0], x.v[j][1], T());
}

// Columns [FIRST, FIRST + COUNT) of values x(i, j, c), the element of a fragment, as a tile of this warpgroup's 64 rows, blocks of 64 columns
// `between` bytes apart.
template <int FIRST, int COUNT, class T, class X> CLEAVE_DEVICE void stage(u32 to, u32 between, T, X x) {
  const int row = ((thread() >> 5) & 3) * 16 + (lane() & 15);
CLEAVE_UNROLL
  for (int n = 0; n < COUNT / 16; n++) {
    const int j = FIRST / 8 + 2 * n;
    u32 r[4];
CLEAVE_UNROLL
    for (int q = 0; q < 4; q++) {
      const float low = x(0, j + (q >> 1), 2 * (q & 1)), high = x(0, j + (q >> 1), 2 * (q & 1) + 1);
      r[q] = pack(low, high, T());
    }
    store_matrices(to + (u32)(n / 4) * between + (u32)(row * 128 + (((n % 4 * 2 + (lane() >> 4)) ^ (row & 7)) << 4)), r[0], r[1], r[2], r[3]);
  }
}

// The same of values x(i, j, c, part) with two parts, which lie side by side; FIRST and COUNT are of the tile.
template <int FIRST, int COUNT, class T, class X> CLEAVE_DEVICE void stage_pairs(u32 to, u32 between, T, X x) {
CLEAVE_UNROLL
  for (int n = 0; n < COUNT / 16; n++)
CLEAVE_UNROLL
    for (int h = 0; h < 2; h++) {
      const int j = FIRST / 16 + n, row = ((thread() >> 5) & 3) * 16 + 8 * h + row_of_lane();
      const u32 low = pack(x(0, j, 2 * h, 0), x(0, j, 2 * h, 1), T()), high = pack(x(0, j, 2 * h + 1, 0), x(0, j, 2 * h + 1, 1), T());
      const int chunk = n % 4 * 2 + ((lane() >> 1) & 1);
      write_shared8(to + (u32)(n / 4) * between + (u32)(row * 128 + ((chunk ^ (row & 7)) << 4) + (lane() & 1) * 8), low, high);
    }
}

// Whether these threads' piece of an item is the last to arrive; they may then read what the others wrote. Leaves the counter at 0.
CLEAVE_DEVICE bool last_to_arrive(u32* counter, int pieces, u32 flag, int id, int threads) {
  barrier_of(id, threads);
  if (thread() == 0) {
    const bool last = arrive(counter) == (u32)pieces - 1;
    if (last) *counter = 0;
    write_shared(flag, last);
  }
  barrier_of(id, threads);
  return read_shared(flag) != 0;
}

// Zeroes rows [first, end) of a tile: memory beyond what a loop may read can hold anything, and 0 times it is not 0.
template <int ROWS, int COLUMNS> CLEAVE_DEVICE void clear_rows(u32 tile, int first, int end) {
  constexpr int BLOCKS = (COLUMNS + 63) / 64;
CLEAVE_ONCE
  for (int at = thread() & 127; at < BLOCKS * ROWS * 8; at += 128) {
    const int row = at / 8 % ROWS;
    if (row >= first && row < end) write_shared16(tile + (u32)at * 16, 0, 0, 0, 0);
  }
}
} // namespace cleave
