// Archives made by hand whose nodes write arguments and buffers.
#pragma once

#include "small_archive.h"

#include <tenon/model.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tenon::formats::testing {

/// forward(x, y) over matrices of 4 x 4 with a buffer c, of which the first row is d: what its nodes
/// and results are is written here.
class WrittenArchive {
 public:
  WrittenArchive& call(const std::string& op, const std::string& self, const std::string& other,
                       const std::string& result, const std::string& sizes = "4,4") {
    nodes_ += std::string(nodes_.empty() ? "" : ",\n") + R"({"target": "torch.ops.aten.)" + op +
              R"(", "inputs": [{"name": "self", "arg": )" + named(self) + R"(, "kind": 1})" +
              other + R"(], "outputs": [)" + named(result) + R"(], "metadata": {}})";
    metas_ += R"(, ")" + result + R"(": )" + tensor_meta(sizes, sizes == "4" ? "1" : "4,1");
    return *this;
  }
  static std::string with(const std::string& tensor) {
    return R"(, {"name": "other", "arg": )" + named(tensor) + R"(, "kind": 1})";
  }
  static std::string with(int number) {
    return R"(, {"name": "other", "arg": {"as_int": )" + std::to_string(number) +
           R"(}, "kind": 1})";
  }
  static std::string first_row() {
    return R"(, {"name": "dim", "arg": {"as_int": 0}, "kind": 1},)"
           R"( {"name": "index", "arg": {"as_int": 0}, "kind": 1})";
  }

  /// Loaded from a file that is gone by then.
  Model load(const std::string& backend, const std::vector<std::string>& results) const {
    auto file = std::filesystem::temp_directory_path() /
                ("tenon_written_" + std::to_string(::getpid()) + ".pt2");
    Bytes bytes = archive(results).bytes();
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.span.data()),
               static_cast<std::streamsize>(bytes.span.size()));
    Model model = tenon::load(file, {.backend = backend});
    std::filesystem::remove(file);
    return model;
  }

 private:
  SmallArchive archive(const std::vector<std::string>& results) const {
    SmallArchive out;
    auto weight = [](const std::string& name, const std::string& meta) {
      return "\"" + name +
             R"(": {"path_name": "tensor_1", "is_param": false, "use_pickle": false, )"
             R"("tensor_meta": )" +
             meta + "}";
    };
    out.records["data/weights/model_weights_config.json"] = R"({"config": {}})";
    out.records["data/constants/tensor_1"] = std::string(64, '\0');
    out.records["data/constants/model_constants_config.json"] =
        R"({"config": {)" + weight("c", tensor_meta("4,4", "4,1")) + ", " +
        weight("d", tensor_meta("4", "1")) + "}}";
    std::string outputs, specs;
    for (const std::string& result : results) {
      outputs += (outputs.empty() ? "" : ", ") + named(result);
      specs += (specs.empty() ? "" : ", ") + std::string(R"({"user_output": {"arg": )") +
               named(result) + "}}";
    }
    std::string& model = out.records["models/model.json"];
    auto cut = [&](const std::string& from, const std::string& to, const std::string& now) {
      size_t begin = model.find(from), end = model.find(to, begin);
      model.replace(begin, end - begin, now);
    };
    const std::string matrix = tensor_meta("4,4", "4,1");
    cut(R"("guards_code")", R"("graph_module")",
        R"("guards_code": [],)"
        "\n");
    cut(R"("range_constraints")", R"("guards_code")",
        R"("range_constraints": {},)"
        "\n");
    cut(R"("inputs": [)", R"("sym_int_values")",
        R"("inputs": [)" + named("b_c") + ", " + named("b_d") + ", " + named("x") + ", " +
            named("y") + R"(],)" + R"("outputs": [)" + outputs + R"(], "nodes": [)" + nodes_ +
            R"(], "tensor_values": {"b_c": )" + matrix + R"(, "b_d": )" + tensor_meta("4", "1") +
            R"(, "x": )" + matrix + R"(, "y": )" + matrix + metas_ + "},\n");
    auto buffer = [](const std::string& name) {
      return R"({"buffer": {"arg": {"name": "b_)" + name + R"("}, "buffer_name": ")" + name +
             R"(", "persistent": false}}, )";
    };
    cut(R"("input_specs")", R"("module_call_graph")",
        R"("input_specs": [)" + buffer("c") + buffer("d") + R"({"user_input": {"arg": )" +
            named("x") + R"(}}, {"user_input": {"arg": )" + named("y") +
            R"(}}], "output_specs": [)" + specs + "]},\n");
    const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
    out.change_model(R"(\"children_spec\": [)" + leaf + "]}, ",
                     R"(\"children_spec\": [)" + leaf + ", " + leaf + "]}, ");
    out.change_model(R"(["x"])", R"(["x", "y"])");
    std::string tree = leaf;
    if (results.size() > 1) {
      for (size_t i = 1; i < results.size(); ++i) tree += ", " + leaf;
      out.change_model(R"("out_spec": "[1, )" + leaf,
                       R"("out_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", )"
                       R"(\"children_spec\": [)" +
                           tree + "]}");
    }
    return out;
  }

  std::string nodes_, metas_;
};

}  // namespace tenon::formats::testing
