// The in-place and out forms derived from a functional schema.
#include "ops/schema.h"

#include <algorithm>
#include <array>

namespace tenon {

namespace {

bool is_plain_tensor(const SchemaType& type, const AliasInfo& alias) {
  return type == SchemaType{} && alias.empty();
}

AliasInfo written_alias(char set) { return {{std::string(1, set)}, {}, true}; }

// Factories and casts take these four together; an out form finds them in `out`.
constexpr std::array<std::string_view, 4> tensor_options = {"dtype", "layout", "device",
                                                            "pin_memory"};

void drop_tensor_options(Schema& schema) {
  for (std::string_view option : tensor_options)
    if (schema.find_arg(option) < 0) return;
  std::erase_if(schema.args, [](const SchemaArg& arg) {
    return std::find(tensor_options.begin(), tensor_options.end(), arg.name) !=
           tensor_options.end();
  });
}

}  // namespace

bool Schema::is_for_parts() const {
  auto is_list = [](const SchemaReturn& r) { return r.type.is_list; };
  auto is_written_list = [](const SchemaArg& a) { return a.type.is_list && a.mutated(); };
  return (returns.size() > 1 && std::ranges::any_of(returns, is_list)) ||
         std::ranges::any_of(args, is_written_list);
}

int Schema::find_arg(std::string_view arg) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}

int Schema::returned_arg(size_t index) const {
  const AliasInfo& alias = returns[index].alias;
  if (!alias.mutated || alias.before.empty()) return -1;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].mutated() && args[i].alias.before == alias.before) return static_cast<int>(i);
  return -1;
}

Schema in_place_schema(const Schema& functional) {
  require(!functional.args.empty() &&
              is_plain_tensor(functional.args[0].type, functional.args[0].alias) &&
              functional.returns.size() == 1 &&
              is_plain_tensor(functional.returns[0].type, functional.returns[0].alias),
          "{}: an in-place form needs a first argument `Tensor` and one result `Tensor`; found "
          "{}; leave `in_place` out of its variants",
          functional.canonical_name(), functional);
  Schema out = functional;
  out.name += "_";
  out.args[0].alias = out.returns[0].alias = written_alias('a');
  out.returns[0].name.clear();
  return out;
}

Schema out_schema(const Schema& functional) {
  Schema out = functional;
  drop_tensor_options(out);
  bool unnamed = out.overload.empty() || out.overload == "Tensor";
  out.overload = unnamed ? "out" : out.overload + "_out";
  size_t n = out.returns.size();
  bool plain = n > 0 && n <= 26;
  for (size_t i = 0; i < n && plain; ++i) {
    SchemaReturn& result = out.returns[i];
    plain = is_plain_tensor(result.type, result.alias);
    result.alias = written_alias(static_cast<char>('a' + i));
    std::string name = n == 1 ? "out" : message("out{}", i);
    plain = plain && out.find_arg(name) < 0;
    out.args.push_back({name, SchemaType{}, result.alias, {}, true});
  }
  for (const SchemaArg& arg : functional.args) plain = plain && arg.alias.empty();
  require(plain,
          "{}: an out form needs results that are all `Tensor` without alias, and no argument "
          "that is written or named as they are; found {}; leave `out` out of its variants",
          functional.canonical_name(), functional);
  return out;
}

}  // namespace tenon
