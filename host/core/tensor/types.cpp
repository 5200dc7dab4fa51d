// Text and conversions of the small public value types.
#include <tenon/types.h>

#include "core/error.h"
#include "core/sym/sym_int.h"

namespace tenon {

std::string to_text(Device device) {
  std::string name = device.type == DeviceType::cpu    ? "cpu"
                     : device.type == DeviceType::cuda ? "cuda"
                     : device.type == DeviceType::meta
                         ? "meta"
                         : message("device{}", static_cast<int32_t>(device.type));
  if (device.type != DeviceType::cpu && device.type != DeviceType::meta)
    name += ":" + std::to_string(device.index);
  return name;
}

std::string to_text(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::contiguous:
      return "contiguous";
    case MemoryFormat::preserve:
      return "preserve";
    case MemoryFormat::channels_last:
      return "channels_last";
    default:
      return "channels_last_3d";
  }
}

SymInt Number::sym_int() const {
  if (is_integer()) return SymInt::from_word(word_);
  if (is_symbolic())
    return is_floating() ? sym_round(SymOp::trunc, sym_float())
                         : SymInt(static_cast<int64_t>(to_bool()));
  if (is_boolean()) return SymInt(word_);
  double value = std::bit_cast<double>(word_);
  require(value >= -0x1p62 && value < 0x1p62, "the number {} does not fit into an integer", value);
  return SymInt(static_cast<int64_t>(value));
}

SymFloat Number::sym_float() const {
  if (is_integer()) {
    SymInt i = SymInt::from_word(word_);
    return i.is_symbolic() ? sym_to_float(i) : SymFloat(static_cast<double>(i.word()));
  }
  if (is_boolean()) return SymFloat(to_bool() ? 1.0 : 0.0);
  if (is_symbolic()) return SymFloat::from_expr(std::bit_cast<const Expr*>(word_));
  return SymFloat(std::bit_cast<double>(word_));
}

SymBool Number::sym_bool() const {
  if (is_boolean())
    return is_symbolic() ? SymBool::from_expr(std::bit_cast<const Expr*>(word_))
                         : SymBool(word_ != 0);
  if (is_integer()) return sym_int() != 0;
  return SymBool(to_double() != 0);
}

std::string to_text(Number value) {
  if (value.is_integer()) return to_text(value.sym_int());
  if (value.is_floating()) return to_text(value.sym_float());
  return to_text(value.sym_bool());
}

namespace {

std::string text_of(SymInt value) { return to_text(value); }
// A plain number may be one that no SymInt holds.
std::string text_of(int64_t value) { return std::to_string(value); }

template <class L>
std::string bracketed(const L& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + text_of(values[i]);
  return out + "]";
}

}  // namespace

std::string to_text(IntList values) { return bracketed(values); }
std::string to_text(SymIntList values) { return bracketed(values); }

bool operator==(SymIntList a, SymIntList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

}  // namespace tenon
