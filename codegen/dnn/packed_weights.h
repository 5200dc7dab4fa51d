// Weights in the layouts that oneDNN's kernels want, kept between calls.
//
// A layer calls its op again and again with the same weights, and changing their layout can cost as
// much as the op. What is kept is found by the storage, its version (which every write counts up)
// and the view of it, so weights that were written are packed anew, and replace the old ones. What is
// kept goes when the storage does, where the host tells; the total is bounded, and what was used
// longest ago goes first.
//
// Threads: any; packing the same weights twice at the same time is harmless.
#pragma once

#include <tenon/plugin.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace onednn {

/// Memory of the packed form, aligned for vector loads.
class Packed {
 public:
  explicit Packed(size_t bytes);
  ~Packed();
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};
using PackedPtr = std::shared_ptr<const Packed>;

/// Which view of which tensor, in which layout.
struct WeightsKey {
  uint64_t storage_id;
  uint64_t version;
  std::vector<int64_t> view;  ///< byte offset, sizes, strides, dtype, use, layout: all that differs

  /// `use`: what else the packed form depends on; `layout`: packed_layout() of what reads it.
  WeightsKey(const tn_tensor& t, std::vector<int64_t> use, uint64_t layout);
};

/// The packed weights, or null.
PackedPtr find_packed(const WeightsKey& key);
/// Keeps them, in place of an older version of the same view.
void keep_packed(const WeightsKey& key, PackedPtr packed);
/// Whether what is packed of it may be kept: false where others could write to it uncounted. If so,
/// its end is awaited.
bool may_keep(const tn_tensor& t);
/// The storage is gone: what is known of it goes.
void forget_storage(uint64_t storage_id);
/// The same, packed first by pack_part(part, memory) on all threads where there is none. Packed
/// anew for each call where it may not or need not be kept.
template <class PackPart>
PackedPtr find_or_pack(const tn_tensor& weights, const WeightsKey& key, size_t bytes, int64_t parts,
                       PackPart&& pack_part, bool keeps = true) {
  bool keep = keeps && may_keep(weights);
  if (PackedPtr known = keep ? find_packed(key) : nullptr) return known;
  auto packed = std::make_shared<Packed>(bytes);
  tenon::plugin::parallel_chunks(parts,
                                 [&](int64_t part, int32_t) { pack_part(part, packed->data()); });
  if (keep) keep_packed(key, packed);
  return packed;
}
/// Whether the same version was asked for before in the same use, and may be kept: weights seen once may
/// be about to change. The backward pass reads them in another use than the forward. `use`: strides.
bool seen_before(const tn_tensor& t, std::array<int64_t, 2> use);

/// Forgets everything.
void drop_packed();

}  // namespace onednn
