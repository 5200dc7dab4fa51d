// Look-up of eager code by key, the least recently used going first.
#include "backend/single_op/cache.h"

#include <algorithm>

namespace tenon {

SingleOpPtr SingleOpCache::find(const CallKey& key, std::span<const int64_t> numbers) {
  std::lock_guard lock(using_it_);
  auto known = places_.find(key);
  if (known == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known->second);
  for (const SingleOpPtr& op : known->second->ops)
    if (op->by_value || op->conditions.check(numbers)) return op;
  return nullptr;
}

void SingleOpCache::add(const CallKey& key, SingleOpPtr op) {
  std::lock_guard lock(using_it_);
  if (auto known = places_.find(key); known != places_.end())
    return known->second->ops.push_back(std::move(op));
  entries_.push_front({key, {std::move(op)}});
  places_.emplace(key, entries_.begin());
  if (entries_.size() <= most_) return;
  places_.erase(entries_.back().key);
  entries_.pop_back();
}

void SingleOpCache::clear() {
  std::lock_guard lock(using_it_);
  places_.clear();
  entries_.clear();
}

size_t SingleOpCache::size() const {
  std::lock_guard lock(using_it_);
  return entries_.size();
}

namespace {

CallKey key_of(const CallArgs& call, Device device, ResultPlace::Kind kind) {
  CallKey key;
  key.add(static_cast<uint64_t>(call.op->id) << 32 | static_cast<uint64_t>(device.type) << 2 |
          static_cast<uint64_t>(kind));
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& arg = call.args[i];
    uint32_t n = arg.tag == Tag::tensor ? 1 : arg.tag == Tag::tensors ? arg.count : 0;
    for (uint32_t k = 0; k < n; ++k)
      if (const Tensor& t = arg.as<Tensor>()[k]; t.defined())
        key.add(static_cast<uint64_t>(t.dtype()));
  }
  return key;
}

}  // namespace

std::string DeclinedOps::find(const CallArgs& call, Device device, ResultPlace::Kind kind) const {
  std::lock_guard lock(using_it_);
  if (reasons_.empty()) return "";
  auto known = reasons_.find(key_of(call, device, kind));
  return known == reasons_.end() ? "" : known->second;
}

void DeclinedOps::add(const CallArgs& call, Device device, ResultPlace::Kind kind,
                      std::string reason) {
  std::lock_guard lock(using_it_);
  reasons_.insert_or_assign(key_of(call, device, kind), std::move(reason));
}

void DeclinedOps::clear() {
  std::lock_guard lock(using_it_);
  reasons_.clear();
}

}  // namespace tenon
