// Checked arithmetic on the sizes that files declare.
#include "formats/limits.h"

#include <algorithm>

namespace tenon::formats {

int64_t checked_numel(std::span<const int64_t> sizes, Dtype dtype, const Subject& subject) {
  require(sizes.size() <= limits::tensor_rank, ErrorCode::bad_file,
          "{}: expected at most {} dimensions, found {}", subject, limits::tensor_rank,
          sizes.size());
  for (int64_t size : sizes)
    require(size >= 0, ErrorCode::bad_file, "{}: expected sizes of 0 or more, found {}", subject,
            size);
  // Zeros count as ones: the strides of a tensor without elements must fit too.
  int64_t product = 1;
  int64_t bytes = 0;
  bool overflow = false;
  for (int64_t size : sizes)
    overflow = overflow || __builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
  overflow = overflow || __builtin_mul_overflow(product, itemsize(dtype), &bytes);
  require(!overflow, ErrorCode::bad_file, "{}: the product of the sizes does not fit into 64 bits",
          subject);
  return std::ranges::find(sizes, 0) == sizes.end() ? product : 0;
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return strides;
}

void check_view(const RawView& view, uint64_t storage_bytes, const Subject& subject) {
  require(view.sizes.size() == view.strides.size(), ErrorCode::bad_file,
          "{}: expected one stride for each of {} sizes, found {}", subject, view.sizes.size(),
          view.strides.size());
  require(view.offset >= 0, ErrorCode::bad_file,
          "{}: expected a storage offset of 0 or more, found {}", subject, view.offset);
  for (int64_t stride : view.strides)
    require(stride >= 0, ErrorCode::bad_file, "{}: expected strides of 0 or more, found {}",
            subject, stride);
  const auto item = static_cast<uint64_t>(itemsize(view.dtype));
  require(storage_bytes % item == 0, ErrorCode::bad_file,
          "{}: expected a multiple of {} bytes for {}, found {}", subject, item, view.dtype,
          storage_bytes);
  if (checked_numel(view.sizes, view.dtype, subject) == 0) return;
  int64_t last = view.offset;
  bool overflow = false;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(view.sizes[i] - 1, view.strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
  }
  require(!overflow && static_cast<uint64_t>(last) < storage_bytes / item, ErrorCode::bad_file,
          "{}: the view reaches beyond its storage of {} bytes; is the file complete?", subject,
          storage_bytes);
}

}  // namespace tenon::formats
