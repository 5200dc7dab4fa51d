// Versions of parameters, forms of packed weights.
#include "prepacking.h"

#include <algorithm>

namespace inductor {

namespace {

constexpr size_t words_of_version = 3, most_forms = 4;  // of one item

void add_once(std::vector<uint32_t>& list, uint32_t number) {
  if (std::find(list.begin(), list.end(), number) == list.end()) list.push_back(number);
}

}  // namespace

void Prepacking::watch(uint32_t input) { add_once(inputs_, input); }

void Prepacking::add_sizes(std::span<const uint32_t> symbols) {
  for (uint32_t s : symbols) add_once(sizes_, s);
}

std::vector<uint64_t> Prepacking::versions_of(tn_tensor* const* inputs) const {
  std::vector<uint64_t> out;
  for (uint32_t i : inputs_) {
    const tn_tensor* t = inputs[i];
    out.insert(out.end(), {t->storage_id, TN_VERSION(t), reinterpret_cast<uint64_t>(t->data)});
  }
  return out;
}

bool Prepacking::is_of(const Prepacked& data, tn_tensor* const* inputs) const {
  if (data.is_left) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const tn_tensor* t = inputs[inputs_[i]];
    const uint64_t* known = &data.versions[words_of_version * i];
    if (known[0] != t->storage_id || known[1] != TN_VERSION(t) ||
        known[2] != reinterpret_cast<uint64_t>(t->data))
      return false;
  }
  return true;
}

std::shared_ptr<const Memory> Prepacking::form_of(const Request& request, size_t item) {
  std::vector<Prepacked::Form>& forms = request.data->forms[item];
  const LibraryCall& call = *request.calls[item];
  uint64_t packing = call.packing(request.symbols);
  for (const Prepacked::Form& form : forms)
    if (form.packing == packing) return form.memory;
  if (forms.size() == most_forms) forms.erase(forms.begin());
  auto made =
      std::make_shared<const Memory>(Memory::settled(call.pack(request.pointers, request.symbols)));
  ++packings_;
  forms.push_back({packing, made});
  return made;
}

bool Prepacking::find(const Request& request, PackedWeights& out) {
  bool is_known = out.of == request.data;
  for (size_t i = 0; is_known && i < sizes_.size(); ++i)
    is_known = out.sizes[i] == request.symbols[sizes_[i]];
  if (is_known) return false;
  out.of = nullptr;
  out.by_item.assign(request.packs.size(), nullptr);
  for (size_t i = 0; i < request.packs.size(); ++i)
    if (request.packs[i]) out.by_item[i] = form_of(request, i);
  out.sizes.clear();
  for (uint32_t s : sizes_) out.sizes.push_back(request.symbols[s]);
  out.of = request.data;
  return true;
}

int64_t Prepacking::bytes_of(const Prepacked& data) {
  int64_t out = 0;
  for (const auto& forms : data.forms)
    for (const Prepacked::Form& form : forms) out += static_cast<int64_t>(form.memory->size());
  return out;
}

}  // namespace inductor
