// What a function tells of itself.
#include "function.h"

namespace tenon::cuda::trees {

using plugin::text;

namespace {

size_t bytes_of(const std::vector<Range>& ranges) {
  size_t sum = 0;
  for (const Range& r : ranges) sum += r.bytes();
  return sum;
}

const char* name_of(InputPlan::Way way) {
  switch (way) {
    case InputPlan::Way::moved:
      return "moved";
    case InputPlan::Way::fixed:
      return "fixed";
    case InputPlan::Way::staged:
      return "copied";
    default:
      return "unused";
  }
}

std::string to_json(const Recorded& r) {
  std::string inputs;
  for (const InputPlan& i : r.plan().inputs)
    inputs += text("{}\"{}\"", inputs.empty() ? "" : ", ", name_of(i.way));
  size_t copied = 0, managed = 0;
  for (const SlotPlan& s : r.plan().slots) copied += s.is_copied, managed += s.is_managed;
  return text(
      "{\"nodes\": {}, \"own_nodes\": {}, \"bytes\": {}, \"replays\": {}, \"changed_nodes\": {}, "
      "\"inputs\": [{}], \"results\": {}, \"results_copied\": {}, \"results_kept\": {}, "
      "\"why\": {}}",
      r.graph().nodes(), r.graph().captured().notes.size(), bytes_of(r.plan().footprint), r.replays,
      r.graph().patches(), inputs, r.plan().slots.size(), copied, managed, quoted(r.why));
}

std::string to_json(const Variant& v, uint32_t n_syms) {
  std::string syms, recordings;
  for (uint32_t i = 0; i < n_syms && i < v.signature.size(); ++i)
    syms += text("{}{}", syms.empty() ? "" : ", ", v.signature[i]);
  for (const auto& r : v.recordings) recordings += (recordings.empty() ? "" : ", ") + to_json(*r);
  return text("{\"symbols\": [{}], \"calls\": {}, \"recordings\": [{}]}", syms, v.calls,
              recordings);
}

}  // namespace

std::string Function::describe() const {
  std::string variants;
  std::lock_guard sharing(sharing_);
  for (const Share& share : shares_) {
    std::lock_guard lock(share.manager->using_it);
    for (const auto& v : share.variants)
      variants += (variants.empty() ? "" : ", ") + to_json(*v, about_.n_syms);
  }
  return text("{\"name\": {}, \"device\": {}, {}, \"sizes\": [{}]}", quoted(about_.name),
              gpu_.index(), statistics_.to_json(), variants);
}

}  // namespace tenon::cuda::trees
