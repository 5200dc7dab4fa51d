// Weights and constants: views of records, each record the bytes of one storage.
#include <algorithm>
#include <map>

#include "formats/pt2/pt2_parts.h"

namespace tenon::formats::pt2 {

namespace {

// weight_3, tensor_0: the only record names that are looked up.
bool is_record_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

int64_t read_size(const Pt2Sym& sym, const JsonView& view) {
  check(!sym.is_symbolic() && sym.expr->kind == ExprKind::integer,
        "{}: expected plain integers for sizes, strides and offset of a weight", view);
  return sym.expr->integer();
}

std::vector<int64_t> read_sizes(const std::vector<Pt2Sym>& syms, const JsonView& view) {
  std::vector<int64_t> sizes;
  for (const Pt2Sym& sym : syms) sizes.push_back(read_size(sym, view));
  return sizes;
}

Pt2Weight read_description(const JsonView& view) {
  Pt2Expressions none;
  Pt2TensorMeta meta = read_tensor_meta(view.field("tensor_meta"), none);
  Pt2Weight weight;
  weight.dtype = meta.dtype;
  weight.sizes = read_sizes(meta.sizes, view);
  weight.strides = read_sizes(meta.strides, view);
  weight.offset = read_size(meta.storage_offset, view);
  weight.requires_grad = meta.requires_grad;
  weight.device = meta.device;
  weight.is_parameter = view.field("is_param").boolean();
  require(weight.device.type == "cpu" || weight.device.type == "cuda", ErrorCode::unsupported,
          "{}: weights on device \"{}\" are not supported; move the model to cpu before the export",
          view, printable(weight.device.type));
  return weight;
}

void check_data(const Pt2Weight& weight, const JsonView& view, const Pt2Options& options) {
  if (weight.has_data) {
    check_view({weight.dtype, weight.sizes, weight.strides, weight.offset},
               weight.storage.span.size(), view);
    return;
  }
  check(options.random_weights,
        "{}: the archive holds no weights: its record has 0 bytes; it was saved from fake tensors. "
        "Export it again with real ones, or run with --random-weights",
        view);
  // The view is checked against the storage that it asks for.
  check_view({weight.dtype, weight.sizes, weight.strides, weight.offset},
             static_cast<uint64_t>(INT64_MAX) / 16 * 16, view);
}

// The records of one folder; each is read and checked once, however many tensors share it.
class FolderRecords {
 public:
  FolderRecords(const Pt2Records& records, std::string_view folder)
      : records_(records), folder_(folder) {}

  Bytes read(const std::string& name, const JsonView& view) {
    auto [at, is_new] = read_.try_emplace(name);
    if (!is_new) return at->second;
    std::optional<Bytes> found = records_.find("data/" + folder_ + "/" + name);
    check(found.has_value(), "{}: the record {}/{} is missing", view, folder_, name);
    at->second = aligned(std::move(*found), records_.subject());
    return at->second;
  }

 private:
  const Pt2Records& records_;
  std::string folder_;
  std::map<std::string, Bytes> read_;
};

Pt2Weight read_weight(const JsonView& view, std::string_view folder, FolderRecords& records,
                      const Pt2Options& options) {
  const std::string& record = view.field("path_name").text();
  std::string_view prefix = folder == "weights" ? "weight_" : "tensor_";
  check(is_record_name(record, prefix), "{}: expected a record name such as {}0, found \"{}\"",
        view.field("path_name"), prefix, printable(record));
  auto pickled = view.optional_field("use_pickle");
  require(!pickled || !pickled->boolean(), ErrorCode::unsupported,
          "{}: is a pickled tensor subclass, which is not supported; make it a plain tensor before "
          "the export",
          view);
  Pt2Weight weight = read_description(view);
  weight.record = std::string(folder) + "/" + record;
  weight.storage = records.read(record, view);
  bool is_empty = std::ranges::find(weight.sizes, 0) != weight.sizes.end();
  weight.has_data = is_empty || !weight.storage.span.empty();
  check_data(weight, view, options);
  return weight;
}

// Objects that no tensor can hold; an input that uses one is refused with the signature.
bool is_object_record(const JsonView& view) {
  const std::string& record = view.field("path_name").text();
  return is_record_name(record, "custom_obj_") || is_record_name(record, "opaque_obj_");
}

}  // namespace

std::string weights_config(std::string_view folder, const std::string& program) {
  return "data/" + std::string(folder) + "/" + program + "_" + std::string(folder) + "_config.json";
}

std::vector<Pt2Weight> read_weights(const Pt2Records& records, std::string_view folder,
                                    const std::string& program, const Pt2Options& options) {
  const std::string config = weights_config(folder, program);
  const Bytes bytes = records.read(config);
  const JsonDocument document = parse_json(bytes.span, records.subject() + ": " + config);
  FolderRecords of_folder(records, folder);
  std::vector<Pt2Weight> weights;
  for (const auto& [name, view] : document.view().field("config").members()) {
    check(!name.empty() && name.find('\0') == name.npos, "{}: a name is empty or has a NUL inside",
          view);
    if (is_object_record(view)) continue;
    weights.push_back(read_weight(view, folder, of_folder, options));
    weights.back().name = name;
  }
  std::ranges::sort(weights, {}, &Pt2Weight::name);
  return weights;
}

}  // namespace tenon::formats::pt2
