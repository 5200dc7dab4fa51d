// How the inputs of a call overlap, and graphs that say so.
#include "model/shared_memory.h"

#include "core/tensor/exposure.h"
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"

#include <algorithm>

namespace tenon {

MemoryWritten::MemoryWritten(const Graph& graph, std::vector<bool> is_weight)
    : is_weight_(std::move(is_weight)), is_written_(formats::written_inputs(graph)) {
  for (uint32_t i = 0; i < is_written_.size(); ++i)
    if (is_written_[i]) written_.push_back(i);
}

namespace {

// Nearly all pairs end here.
bool may_share_memory(const TensorImpl& a, const TensorImpl& b) {
  if (a.storage_id == b.storage_id) return true;
  return is_exposed(*a.storage_ref.get()) && is_exposed(*b.storage_ref.get());
}

}  // namespace

std::vector<Overlap> MemoryWritten::overlaps(std::span<detail::TensorHead* const> inputs) const {
  std::vector<Overlap> out;
  for (uint32_t w : written_) {
    if (!inputs[w]) continue;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      bool is_pair = i != w && inputs[i] && !(is_weight_[w] && is_weight_[i]);
      if (!is_pair || (is_written_[i] && i < w)) continue;  // known from its side
      if (!may_share_memory(static_cast<const TensorImpl&>(*inputs[w]),
                            static_cast<const TensorImpl&>(*inputs[i])))
        continue;
      uint32_t first = std::min(w, i), second = std::max(w, i);
      add_overlap(out, share(inputs[first]), first, share(inputs[second]), second);
    }
  }
  return out;
}

bool is_shared(std::span<const Overlap> overlaps, size_t input) {
  return std::ranges::any_of(
      overlaps, [&](const Overlap& o) { return o.first == input || o.second == input; });
}

namespace {

/// Where inputs begin, in bytes, counted from one place for all of a group.
class Places {
 public:
  explicit Places(const Graph& graph) : graph_(graph), places_(graph.inputs().size()) {
    uint32_t fresh = 0;
    for (const GraphValue& v : graph.values()) fresh = std::max(fresh, v.alias_group);
    for (size_t i = 0; i < places_.size(); ++i) {
      const GraphValue& v = value(i);
      places_[i] =
          v.alias_group ? Place{v.alias_group, v.offset.word() * width(i)} : Place{++fresh, 0};
    }
  }

  /// False where the group says something else already.
  bool join(const Overlap& o) {
    const Place from = places_[o.second], to = places_[o.first];
    int64_t apart = to.begin + o.bytes - from.begin;
    if (from.group == to.group) return apart == 0;
    for (Place& place : places_)
      if (place.group == from.group) place = {to.group, place.begin + apart};
    return true;
  }

  bool are_whole_elements(std::span<const Overlap> overlaps) const {
    for (size_t i = 0; i < places_.size(); ++i)
      if (is_touched(places_[i], overlaps) && begin_in_group(i) % width(i) != 0) return false;
    return true;
  }

  void tell(Graph& graph, std::span<const Overlap> overlaps) const {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!is_touched(places_[i], overlaps)) continue;
      GraphValue& v = graph.value(graph.inputs()[i]);
      v.alias_group = places_[i].group;
      v.offset = begin_in_group(i) / width(i);
    }
  }

 private:
  struct Place {
    uint32_t group = 0;
    int64_t begin = 0;
  };
  const GraphValue& value(size_t i) const { return graph_.value(graph_.inputs()[i]); }
  int64_t width(size_t i) const { return static_cast<int64_t>(itemsize(value(i).meta.dtype)); }

  bool is_touched(const Place& place, std::span<const Overlap> overlaps) const {
    return std::ranges::any_of(
        overlaps, [&](const Overlap& o) { return places_[o.first].group == place.group; });
  }

  int64_t begin_in_group(size_t i) const {
    int64_t first = places_[i].begin;
    for (const Place& place : places_)
      if (place.group == places_[i].group) first = std::min(first, place.begin);
    return places_[i].begin - first;
  }

  const Graph& graph_;
  std::vector<Place> places_;
};

}  // namespace

bool can_tell_overlaps(const Graph& graph, std::span<const Overlap> overlaps) {
  Places places(graph);
  return std::ranges::all_of(overlaps, [&](const Overlap& o) { return places.join(o); }) &&
         places.are_whole_elements(overlaps);
}

void tell_overlaps(Graph& graph, std::span<const Overlap> overlaps) {
  Places places(graph);
  for (const Overlap& o : overlaps) places.join(o);
  places.tell(graph, overlaps);
}

}  // namespace tenon
