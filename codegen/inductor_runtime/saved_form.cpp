// The saved form: magic, version, digest, then the fields.
//
// Kernels are saved as the relocatable objects that they were linked from. They are found again by
// their symbols, which are digests of what they compute.
#include "saved_form.h"

#include "cpu_features.h"
#include "saved_fields.h"

#include <loopir/saving/bytes.h>
#include <loopir/saving/saved_program.h>

#include <algorithm>
#include <set>

namespace inductor {

using tenon::plugin::error;
using tenon::plugin::text;

/// The object code of all kernels.
struct Code {
  std::vector<std::vector<std::string>> linked;  // what was linked together

  explicit Code() = default;
  explicit Code(const std::vector<KernelCode>& functions) {
    std::set<const LinkedCode*> seen;
    for (const KernelCode& f : functions)
      if (f.code && seen.insert(f.code.get()).second) linked.push_back(f.code->objects());
  }
};

template <class V>
void fields(V& v, Code& c) {
  v(c.linked);
}

namespace {

constexpr loopir::SavedHead head{.magic = "inductor", .version = 8};

// ---- what calls rely on and the fields alone do not say

void check_items(const Parts& parts) {
  size_t n = parts.schedule.items.size();
  loopir::expect_saved(
      parts.accesses.size() == n && parts.kernels.size() == n && parts.is_prepacked.size() == n,
      "lists of items of different lengths");
  for (size_t i = 0; i < n; ++i) {
    const loopir::Item& item = parts.schedule.items[i];
    bool has_code = std::holds_alternative<loopir::Kernel>(item);
    loopir::expect_saved(has_code == !parts.kernels[i].symbol.empty(), "a kernel without code");
    loopir::expect_saved(parts.externs.contains(i) == std::holds_alternative<loopir::Extern>(item),
                         "an op without arguments");
    loopir::check_saved(parts.program, item, loopir::Multiplier::cpu);
  }
  for (const Region& r : parts.regions)
    loopir::expect_saved(r.first <= r.last && r.last < n &&
                             r.units.size() == r.last - r.first + 1 && r.rows != loopir::none &&
                             r.granule > 0,
                         "a region of items that are not there");
}

// Code that several kernels came from is linked once.
void link(Parts& parts, Code& code) {
  std::vector<std::shared_ptr<const LinkedCode>> linked;
  for (std::vector<std::string>& objects : code.linked)
    linked.push_back(std::make_shared<const LinkedCode>(std::move(objects)));
  for (const KernelInterface& k : parts.kernels) {
    KernelCode& out = parts.functions.emplace_back();
    if (k.symbol.empty()) continue;
    auto has = [&](const auto& l) { return l->has(k.symbol); };
    auto found = std::find_if(linked.begin(), linked.end(), has);
    loopir::expect_saved(found != linked.end(), "a kernel without code");
    out = {(*found)->find(k.symbol), *found};
  }
}

}  // namespace

std::string saved_form(Parts& parts) {
  loopir::Writer writer(parts.program.expressions);
  Code code(parts.functions);
  writer(parts);
  writer(code);
  return loopir::with_head(head, writer.take());
}

void bind_loaded(Parts& parts, const tn_compile_request& request) {
  loopir::bind_saved(parts.program, request);
  check_items(parts);
  for (auto& [item, call] : parts.externs) call.link(parts.program);
  parts.options.profiles = tenon::plugin::options(request).get<bool>("profile");
  parts.statistics.from_cache = true;
}

std::unique_ptr<Executable> load_executable(const tn_compile_request& request,
                                            std::string_view bytes) {
  loopir::Reader reader(loopir::body_of(head, bytes));
  Parts parts;
  Code code;
  reader(parts);
  reader(code);
  reader.finish();
  bind_loaded(parts, request);
  std::string missing = missing_features(parts.options.code.features);
  if (!missing.empty())
    throw error(TN_FAILED_PRECONDITION,
                text("the code is for the processor {}; this one lacks {}; compile it for a lower "
                     "level, such as cpu = \"x86-64-v3\"",
                     parts.options.code.cpu, missing));
  link(parts, code);
  return std::make_unique<Executable>(std::move(parts));
}

}  // namespace inductor
