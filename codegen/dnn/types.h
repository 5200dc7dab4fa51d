// Dtypes and addresses, as the kernels here use them.
#pragma once

#include "engine.h"
#include "new_code.h"

#include <tenon/plugin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>

namespace onednn {

/// Multiply-adds below which waking another thread costs more than it saves (about 10 µs of work).
constexpr int64_t small_work = 1 << 20;
/// Bytes of weights that one thread reads in about as long.
constexpr int64_t small_weights = 768 << 10;

inline int64_t element_size(int32_t dtype) { return dtype == TN_F32 ? 4 : 2; }
inline dnnl::memory::data_type data_type(int32_t dtype) {
  return dtype == TN_F32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// The address of an element.
inline const void* at(const void* data, int64_t element, int32_t dtype) {
  return static_cast<const std::byte*>(data) + element * element_size(dtype);
}
inline void* at(void* data, int64_t element, int32_t dtype) {
  return static_cast<std::byte*>(data) + element * element_size(dtype);
}

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Whole cache lines, so that what follows is aligned for vector loads.
constexpr size_t round_up_to_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A matrix with the step from row to row, in elements.
template <class Address>
struct Rows {
  Address data;
  int64_t step;
};

/// Nothing is done where both are the same.
inline void copy_rows(Rows<const void*> from, Rows<void*> to, int64_t rows, int64_t columns,
                      int32_t dtype) {
  if (from.data == to.data && (from.step == to.step || rows == 1)) return;
  auto bytes = static_cast<size_t>(columns * element_size(dtype));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(at(to.data, r * to.step, dtype), at(from.data, r * from.step, dtype), bytes);
}

/// A plan, or none where oneDNN has no implementation (of a dtype on this CPU, of a shape), may not
/// make its code, or found no memory when it made this primitive before: its cache keeps a promise of
/// that one which nobody fulfils any more, and cannot be emptied then.
template <class Make>
auto unless_unsupported(Make&& make) -> decltype(make()) {
  if (*why_no_new_code()) return nullptr;
  try {
    return make();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments) return nullptr;
    throw;
  } catch (const std::future_error&) {
    return nullptr;
  }
}

}  // namespace onednn
