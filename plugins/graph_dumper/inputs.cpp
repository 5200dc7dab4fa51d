#include "inputs.h"

#include <fstream>

using namespace tenon::plugin;

namespace {

struct Name {
  int32_t dtype;
  const char* of_graph;
  const char* of_safetensors;  // null where it has none
  int64_t bytes;
};
constexpr Name names[] = {
    {TN_U8, "u8", "U8", 1},       {TN_I8, "i8", "I8", 1},      {TN_I16, "i16", "I16", 2},
    {TN_I32, "i32", "I32", 4},    {TN_I64, "i64", "I64", 8},   {TN_F16, "f16", "F16", 2},
    {TN_F32, "f32", "F32", 4},    {TN_F64, "f64", "F64", 8},   {TN_BOOL, "bool", "BOOL", 1},
    {TN_BF16, "bf16", "BF16", 2}, {TN_C64, "c64", nullptr, 8}, {TN_C128, "c128", nullptr, 16}};

const Name* name_of(int32_t dtype) {
  for (const Name& n : names)
    if (n.dtype == dtype) return &n;
  return nullptr;
}

std::string listed(std::span<const tn_dim> dims) {
  std::string out = "[";
  for (const tn_dim& d : dims) out += (out.size() > 1 ? ", " : "") + std::to_string(d.value);
  return out + "]";
}

std::string listed(std::span<const int64_t> numbers) {
  std::string out = "[";
  for (int64_t n : numbers) out += (out.size() > 1 ? "," : "") + std::to_string(n);
  return out + "]";
}

}  // namespace

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  if (!out)
    throw error(TN_PERMISSION_DENIED,
                text("graph_dumper: {} cannot be written; set graph_dumper.dir to a folder that "
                     "can",
                     path.string()));
}

std::string inputs_of(const graph& g) {
  std::string out;
  for (uint32_t id : g.inputs()) {
    value v = g.value_at(id);
    if (!v.is_tensor()) {
      out += text("{} number\n", sv(v.name));
      continue;
    }
    const Name* n = name_of(v.dtype);
    out += text("{} {} {} strides {}\n", sv(v.name), n ? n->of_graph : "other", listed(v.dims()),
                listed(v.stride_dims()));
  }
  return out;
}

// The header is padded to 8 bytes, so that numbers are aligned in the file.
void write_values(const std::filesystem::path& path, const tn_call& call) {
  std::string header = "{", body;
  for (uint32_t i = 0; i < call.n_inputs; ++i) {
    const tn_tensor* t = call.inputs[i];
    const Name* n = t && t->device_type == TN_DEV_CPU ? name_of(t->dtype) : nullptr;
    if (!n || !n->of_safetensors) continue;
    tensor dense = tensor::empty(sizes(t), t->dtype);
    dense.copy_from(t);
    size_t begin = body.size();
    if (dense->numel) body.append(dense.data<char>(), static_cast<size_t>(dense->numel * n->bytes));
    header += text("{}\"in.{}\":{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}",
                   header.size() > 1 ? "," : "", i, n->of_safetensors, listed(sizes(t)), begin,
                   body.size());
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  write_file(path, out + header + body);
}
