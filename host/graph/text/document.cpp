// Documents: what readers and writers of both forms share.
#include "graph/text/document.h"

namespace tenon {

void fail_at(TextPosition at, std::string_view what) {
  if (at.line == 0) fail(ErrorCode::bad_file, "graph text: {}", what);
  fail(ErrorCode::bad_file, "graph text, line {}, column {}: {}", at.line, at.column, what);
}

std::vector<std::string_view> flags_of(const ValueDoc& value) {
  std::vector<std::string_view> names;
  auto add = [&](bool set, std::string_view name) {
    if (set) names.push_back(name);
  };
  add(value.wrapped, "wrapped");
  add(value.flags.parameter, "parameter");
  add(value.flags.buffer, "buffer");
  add(value.flags.static_address, "static_address");
  add(value.flags.mutated, "mutated");
  add(value.flags.requires_grad, "requires_grad");
  add(value.flags.saved, "saved");
  add(value.flags.tangent, "tangent");
  add(value.flags.user_output, "user_output");
  add(value.internal, "internal");
  return names;
}

bool set_flag(ValueDoc& value, std::string_view name) {
  if (name == "wrapped") return value.wrapped = true;
  if (name == "parameter") return value.flags.parameter = true;
  if (name == "buffer") return value.flags.buffer = true;
  if (name == "static_address") return value.flags.static_address = true;
  if (name == "mutated") return value.flags.mutated = true;
  if (name == "requires_grad") return value.flags.requires_grad = true;
  if (name == "saved") return value.flags.saved = true;
  if (name == "tangent") return value.flags.tangent = true;
  if (name == "user_output") return value.flags.user_output = true;
  if (name == "internal") return value.internal = true;
  return false;
}

}  // namespace tenon
