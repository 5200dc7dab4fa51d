// Memory as it is: the elements that a block reads or writes.
#pragma once

#include "code.h"

#include <cstring>

namespace blocks {

/// f(T{}) of an unsigned integer of so many bytes.
template <class F>
void with_bytes(size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

/// The elements that a block reads or writes.
struct Places {
  std::byte* memory;  // the first one
  Where where;
  const int64_t* places;
  const uint8_t* mask;  // by lane, or null
  int64_t n;
  // Of a tile, the slowest dimension first; so many of each are set.
  size_t n_dims = 0;
  int64_t extents[most_dimensions], steps[most_dimensions];
};

/// f(i, offset, step, count) for each run along the fastest dimension of a tile.
template <class F>
void for_each_run(const Places& p, F f) {
  size_t last = p.n_dims - 1;
  int64_t at[most_dimensions] = {}, offset = 0, run = p.extents[last];
  for (int64_t i = 0; i < p.n; i += run) {
    f(i, offset, p.steps[last], run);
    for (size_t d = last; d-- > 0;) {
      offset += p.steps[d];
      if (++at[d] < p.extents[d]) break;
      offset -= p.steps[d] * p.extents[d];
      at[d] = 0;
    }
  }
}

template <class T, class F>
void for_each_place(const Places& p, F f) {
  auto* memory = reinterpret_cast<T*>(p.memory);
  auto at = [&](int64_t i, T* element) { f(i, p.mask && !p.mask[i] ? nullptr : element); };
  if (p.where == Where::tiled)
    return for_each_run(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
      for (int64_t k = 0; k < count; ++k) at(i + k, memory + offset + k * step);
    });
  for (int64_t i = 0; i < p.n; ++i) at(i, memory + (p.where == Where::places ? p.places[i] : i));
}

/// Runs of neighbours: where the first one begins, and how many elements further on the next does.
template <class T>
struct Runs {
  T* first;
  int64_t step;
};
/// Of a length that the loop knows: short ones cost no call.
template <int64_t length, class T>
void copy_short_runs(Runs<T> to, Runs<const T> from, int64_t count) {
  for (; count > 0; --count, to.first += to.step, from.first += from.step)
    std::memcpy(to.first, from.first, length * sizeof(T));
}
template <class T>
void copy_runs(Runs<T> to, Runs<const T> from, int64_t count, int64_t length) {
  switch (length) {
    case 2:
      return copy_short_runs<2>(to, from, count);
    case 4:
      return copy_short_runs<4>(to, from, count);
    case 8:
      return copy_short_runs<8>(to, from, count);
    case 16:
      return copy_short_runs<16>(to, from, count);
    default:
      for (; count > 0; --count, to.first += to.step, from.first += from.step)
        std::memcpy(to.first, from.first, static_cast<size_t>(length) * sizeof(T));
  }
}
/// f(i, offset, step, count) for dense runs at i, i + length, ... of the block: two dimensions at a
/// time.
template <class F>
void for_each_runs(const Places& p, F f) {
  Places rows = p;
  rows.n_dims = p.n_dims - 1;
  int64_t length = p.extents[rows.n_dims];
  rows.n = p.n / length;
  for_each_run(rows, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
    f(i * length, offset, step, count);
  });
}
inline bool has_dense_runs(const Places& p) { return p.n_dims > 1 && p.steps[p.n_dims - 1] == 1; }

template <class T>
void read_columns(T* out, const T* memory, int64_t step, int64_t count) {
  if (step == 0)
    for (int64_t k = 0; k < count; ++k) out[k] = *memory;
  else if (step == 1)
    std::memcpy(out, memory, static_cast<size_t>(count) * sizeof(T));
  else if (step == 2)  // known, it is a shuffle of vectors
    for (int64_t k = 0; k < count; ++k) out[k] = memory[k * 2];
  else
    for (int64_t k = 0; k < count; ++k) out[k] = memory[k * step];
}

/// 0 where the mask is not set. The rim of an image is masked, what lies between is not.
template <class T>
void read_masked_columns(T* out, const T* memory, int64_t step, const uint8_t* mask,
                         int64_t count) {
  int64_t first = 0, end = count;
  while (first < end && !mask[first]) out[first++] = T{0};
  while (end > first && !mask[end - 1]) out[--end] = T{0};
  out += first, memory += first * step, mask += first, count = end - first;
  if (!std::memchr(mask, 0, static_cast<size_t>(count)))
    return read_columns(out, memory, step, count);
  for (int64_t k = 0; k < count; ++k) out[k] = mask[k] ? memory[k * step] : T{0};
}

/// All of a tile, without a mask.
template <class T>
void read_tile(const Places& p, T* out) {
  auto* memory = reinterpret_cast<const T*>(p.memory);
  if (!has_dense_runs(p))
    return for_each_run(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
      read_columns(out + i, memory + offset, step, count);
    });
  int64_t length = p.extents[p.n_dims - 1];
  for_each_runs(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
    copy_runs<T>({out + i, length}, {memory + offset, step}, count, length);
  });
}
template <class T>
void read_masked_tile(const Places& p, T* out) {
  auto* memory = reinterpret_cast<const T*>(p.memory);
  for_each_run(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
    read_masked_columns(out + i, memory + offset, step, p.mask + i, count);
  });
}
template <class T>
void write_tile(const Places& p, const T* in) {
  auto* memory = reinterpret_cast<T*>(p.memory);
  if (!has_dense_runs(p))
    return for_each_run(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
      for (int64_t k = 0; k < count; ++k) memory[offset + k * step] = in[i + k];
    });
  int64_t length = p.extents[p.n_dims - 1];
  for_each_runs(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
    copy_runs<T>({memory + offset, step}, {in + i, length}, count, length);
  });
}

inline void gather(const Places& p, size_t item, void* to) {
  if (!p.mask && p.where <= Where::dense) {
    std::memcpy(to, p.memory, static_cast<size_t>(p.n) * item);
    return;
  }
  with_bytes(item, [&](auto t) {
    using T = decltype(t);
    auto* out = static_cast<T*>(to);
    if (p.where == Where::tiled) return p.mask ? read_masked_tile(p, out) : read_tile(p, out);
    if (p.where == Where::dense)
      return read_masked_columns(out, reinterpret_cast<const T*>(p.memory), 1, p.mask, p.n);
    for_each_place<T>(p, [&](int64_t i, const T* from) { out[i] = from ? *from : T{0}; });
  });
}

inline void scatter(const Places& p, size_t item, const void* from) {
  if (p.where <= Where::dense) {
    std::memcpy(p.memory, from, static_cast<size_t>(p.n) * item);
    return;
  }
  with_bytes(item, [&](auto t) {
    using T = decltype(t);
    auto* in = static_cast<const T*>(from);
    if (p.where == Where::tiled) return write_tile(p, in);
    for_each_place<T>(p, [&](int64_t i, T* to) { *to = in[i]; });
  });
}

}  // namespace blocks
