// Text of tensors, and text and conversions of the small public value types.
#include <tenon/tensor.h>

#include "core/error.h"
#include "core/sym/sym_int.h"

#include <charconv>

namespace tenon {

static std::string type_name(DeviceType type) {
  return type == DeviceType::cpu    ? "cpu"
         : type == DeviceType::cuda ? "cuda"
         : type == DeviceType::meta ? "meta"
                                    : message("device{}", static_cast<int32_t>(type));
}

std::string to_text(Device device) {
  std::string name = type_name(device.type);
  if (device.type != DeviceType::cpu && device.type != DeviceType::meta)
    name += ":" + std::to_string(device.index);
  return name;
}

namespace {

std::optional<int32_t> small_integer(std::string_view text) {
  int32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && value <= 1 << 16 ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<Device> parse_device(std::string_view text) {
  size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  std::optional<int32_t> index = 0;
  if (colon != text.npos) index = small_integer(text.substr(colon + 1));
  if (!index || *index < -1) return std::nullopt;
  for (DeviceType type : {DeviceType::cpu, DeviceType::cuda, DeviceType::meta})
    if (name == type_name(type)) return Device(type, *index);
  if (!name.starts_with("device")) return std::nullopt;
  auto type = small_integer(name.substr(6));
  if (!type || *type < 16) return std::nullopt;
  return Device(static_cast<DeviceType>(*type), *index);
}

Device Device::from_text(std::string_view text) {
  std::optional<Device> device = parse_device(text);
  require(device.has_value(),
          "Device: expected a device such as cpu, cuda, cuda:1 or meta, found '{}'", text);
  return *device;
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
std::string symbolic_text(Number value) {
  if (value.is_integer()) return symbolic_text(value.sym_int());
  if (value.is_floating()) return symbolic_text(value.sym_float());
  return symbolic_text(value.sym_bool());
}

namespace {

template <class L, class Text>
std::string bracketed(const L& values, Text text) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + text(values[i]);
  return out + "]";
}

}  // namespace

// A plain number may be one that no SymInt holds.
std::string to_text(IntList values) {
  return bracketed(values, [](int64_t v) { return std::to_string(v); });
}
std::string to_text(SymIntList values) {
  return bracketed(values, [](SymInt v) { return to_text(v); });
}
std::string symbolic_text(IntList values) { return to_text(values); }
std::string symbolic_text(SymIntList values) {
  return bracketed(values, [](SymInt v) { return symbolic_text(v); });
}

namespace {

template <class ListText>
std::string tensor_text(const Tensor& t, ListText list_text) {
  if (!t.defined()) return "undefined";
  std::string out = std::string(name_of(t.dtype())) + list_text(t.sizes());
  if (!t.is_contiguous()) out += " strides " + list_text(t.strides());
  if (t.device().type != DeviceType::cpu) out += " on " + to_text(t.device());
  return out;
}

}  // namespace

std::string to_text(const Tensor& t) {
  return tensor_text(t, [](SymIntList l) { return to_text(l); });
}
std::string symbolic_text(const Tensor& t) {
  return tensor_text(t, [](SymIntList l) { return symbolic_text(l); });
}

bool operator==(SymIntList a, SymIntList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

}  // namespace tenon
