// Stored samples of series, and a place among those of one: what the window kernels walk along.
// Chunks are columns, as decode_series makes them, or packed tiles, as pack_columns does; both are
// tiles of 32 series by one position of chunks, so that the threads of a warp walk 32 series in step.
#pragma once
#include "../abi/packed.h"

// The chunks of a batch of series.
struct Columns {
  const u64* __restrict__ rows;           // of each tile the first
  const PackedWord* __restrict__ packed;  // of each tile
  const Decoded* __restrict__ chunks;     // 32 a tile; of those that are not packed
  const i64* __restrict__ times;
  const double* __restrict__ values;

  // The chunk of a lane of a tile that is packed.
  DEVICE static const PackedChunk& chunk(PackedWord w, u32 lane) { return ((const PackedChunk*)tile_of(w))[lane]; }

  // The time of the last sample of a chunk, and the number of its samples.
  DEVICE i64 end(u32 tile, u32 lane) const {
    PackedWord w = packed[tile];
    return w ? chunk(w, lane).begin + chunk(w, lane).span : chunks[tile * 32 + lane].end;
  }
  DEVICE u32 samples(u32 tile, u32 lane) const {
    PackedWord w = packed[tile];
    return w ? chunk(w, lane).samples : chunks[tile * 32 + lane].samples;
  }
};

// What every kernel over stored samples is given: a batch of series, tiles of them, of each the first
// of its tiles of chunks, and the chunks.
#define COLUMNS_PARAMETERS                                                                                   \
  const u32 *__restrict__ first, u32 tiles, const u64 *__restrict__ rows, \
      const PackedWord *__restrict__ packed, const Decoded *__restrict__ chunks, const i64 *__restrict__ times, \
      const double *__restrict__ values

#define COLUMNS \
  Columns { rows, packed, chunks, times, values }

// A sample.
struct Sample {
  i64 t;
  double v;
};

// A place among the samples of one series.
struct Walker {
  u32 lane;
  u32 tile, end;  // where it is, and that behind the series' last
  u32 i, n;       // sample of the chunk
  i64 t;          // its time; kNever behind the last sample
  i64 until;      // the end of the chunk
  // The chunk:
  u32 kind;  // as of its tile, see ../abi/packed.h; kRegular if its own times are
  u32 falls;
  const u8* times;  // of its samples
  const u8* values;
  const PackedChunk* chunk;  // if it is packed, and some of that:
  i64 begin;
  u32 every;  // 0 where times are not regular, not even but for a gap
  double base;
};

// The time of sample i of the chunk.
DEVICE i64 time(const Walker& w, u32 i) {
  switch (w.kind & kTimesOf) {
    case kWholeTimes: return ((const i64*)w.times)[i * 32];
    case kRegular: return w.begin + (i64)((u64)i * w.every);
    default: return w.begin + ((const u32*)w.times)[i * 32];
  }
}

// The value of sample i of the chunk.
DEVICE double value(const Walker& w, u32 i) {
  u32 values = w.kind & kValuesOf;
  if (values == kWhole) return ((const double*)w.values)[i * 32];
  u32 u = values == kHalf ? ((const u32*)w.values)[i * 32] : ((const unsigned short*)w.values)[i * 32];
  double d = w.base + (double)u;
  return w.kind & kDecimals ? of_decimal(d, w.chunk->unit, w.chunk->inverse) : d;
}

DEVICE Sample sample(const Walker& w, u32 i) { return Sample{time(w, i), value(w, i)}; }

// Goes to the first sample of tile w.tile or a later one. It is called once a chunk.
NOINLINE Walker entered(Columns c, u32 lane, u32 tile, u32 end) {
  Walker w{};
  w.lane = lane;
  w.end = end;
  w.t = kNever;
  for (w.tile = tile; w.tile < end; w.tile++) {
    PackedWord word = c.packed[w.tile];
    if (word) {
      const PackedChunk& chunk = c.chunk(word, lane);
      w.n = chunk.samples;
      if (w.n == 0) continue;
      u32 kind = kind_of(word);
      w.kind = chunk.every > 0 && chunk.gap == 0 ? (kind & ~kTimesOf) | kRegular : kind;
      w.chunk = &chunk;
      w.begin = w.t = chunk.begin;
      w.until = w.begin + chunk.span;
      w.every = chunk.every;
      w.base = chunk.base;
      w.falls = chunk.falls;
      w.times = tile_of(word) + 32 * sizeof(PackedChunk);
      w.values = w.times + rows_of(word) * 32 * time_bytes(kind) + lane * value_bytes(kind);
      w.times += lane * time_bytes(kind);
      return w;
    }
    Decoded chunk = c.chunks[w.tile * 32 + lane];
    w.n = chunk.samples;
    if (w.n == 0) continue;
    u64 at = c.rows[w.tile] * 32 + lane;
    w.until = chunk.end;
    w.falls = chunk.falls;
    w.times = (const u8*)(c.times + at);
    w.values = (const u8*)(c.values + at);
    w.t = c.times[at];
    return w;
  }
  return w;
}

DEVICE void enter(Walker& w, const Columns& c) { w = entered(c, w.lane, w.tile, w.end); }

// Goes to sample i of the chunk, or, if there is none, to the first of the next chunk.
DEVICE void go(Walker& w, const Columns& c, u32 i) {
  w.i = i;
  if (i < w.n) {
    w.t = time(w, i);
    return;
  }
  w.tile++;
  enter(w, c);
}

// Goes to the next sample; there must be one here.
DEVICE void next(Walker& w, const Columns& c) { go(w, c, w.i + 1); }

// The value of the sample here, 0 behind the last one. It does not wait for the
// sample's time to be loaded.
DEVICE double value_at(const Walker& w) { return w.n > 0 ? value(w, w.i) : 0; }

// The part of a chunk with time t, where times are regular but for a gap.
struct Part {
  i64 begin;     // the time of its first sample
  u32 from, to;  // its samples
};

DEVICE Part part_of(const Walker& w, i64 t) {
  if ((w.kind & kTimesOf) == kRegular) return Part{w.begin, 0, w.n};
  u32 gap = w.chunk->gap;
  i64 resumes = time(w, gap);
  return t < resumes ? Part{w.begin, 0, gap} : Part{resumes, gap, w.n};
}

// The number of the first sample of the chunk behind time t, n if there is none: where the sample
// here is not behind t and the chunk ends behind it. It knows where regular times are; else it passes
// samples by fours, whose times do not wait for one another.
const u32 kStride = 4;

DEVICE u32 first_behind(const Walker& w, i64 t) {
  u32 i = w.i;
  if (w.every > 0) {
    Part p = part_of(w, t);
    i = p.from + (u32)(t - p.begin) / w.every + 1;
    return i < p.to ? i : p.to;
  }
  do {
    i += i + kStride < w.n && time(w, i + kStride - 1) <= t ? kStride : 1;
  } while (i < w.n && time(w, i) <= t);
  return i;
}

// Goes on to the first sample after time t and returns how many it passes; `last` is the last of them.
DEVICE u32 advance(Walker& w, const Columns& c, i64 t, Sample& last) {
  u32 passed = 0;
  while (w.t <= t) {
    u32 i = w.until <= t ? w.n : first_behind(w, t);
    last = sample(w, i - 1);
    passed += i - w.i;
    go(w, c, i);
  }
  return passed;
}

// The same, where the last does not matter.
DEVICE u32 advance(Walker& w, const Columns& c, i64 t) {
  u32 passed = 0;
  while (w.t <= t) {
    u32 i = w.until <= t ? w.n : first_behind(w, t);
    passed += i - w.i;
    go(w, c, i);
  }
  return passed;
}

// Goes to the first sample after time t among the tiles first to end.
DEVICE void seek(Walker& w, const Columns& c, u32 lane, u32 first, u32 end, i64 t) {
  w.lane = lane;
  w.end = end;
  u32 lo = first, hi = end;
  while (lo < hi) {
    u32 mid = (lo + hi) / 2;
    if (c.end(mid, lane) > t) {
      hi = mid;
    } else {
      lo = mid + 1;
    }
  }
  w.tile = lo;
  enter(w, c);
  if (w.t > t) return;
  if (w.every > 0) return go(w, c, first_behind(w, t));
  u32 from = 1, to = w.n;
  while (from < to) {
    u32 mid = (from + to) / 2;
    if (time(w, mid) > t) {
      to = mid;
    } else {
      from = mid + 1;
    }
  }
  go(w, c, from);
}

// Goes on to the first sample after time t and returns how many it passes; `last` is the last of them.
// It looks at chunks rather than at samples, of which it tells whether one is less than the one before.
DEVICE u32 leap(Walker& w, const Columns& c, i64 t, Sample& last, bool& falls) {
  u32 passed = 0;
  falls = false;
  while (w.t <= t) {
    u32 i = w.until <= t ? w.n : first_behind(w, t);
    falls = falls || w.falls || (passed > 0 && value(w, w.i) < last.v);
    last = sample(w, i - 1);
    passed += i - w.i;
    go(w, c, i);
  }
  return passed;
}
