// A small .pt2 archive made by hand, whose records a test can change before it is written.
#pragma once

#include <map>
#include <string>

#include "formats/pt2/pt2.h"
#include "test_files.h"

namespace tenon::formats::testing {

inline std::string tensor_meta(const std::string& sizes, const std::string& strides,
                               const std::string& dtype = "7", const std::string& offset = "0") {
  auto list = [](const std::string& numbers) {
    std::string out;
    std::stringstream in(numbers);
    for (std::string number; std::getline(in, number, ',');) {
      if (!out.empty()) out += ", ";
      out += "{\"as_int\": " + number + "}";
    }
    return "[" + out + "]";
  };
  return R"({"dtype": )" + dtype + R"(, "sizes": )" + list(sizes) + R"(, "strides": )" +
         list(strides) + R"(, "storage_offset": {"as_int": )" + offset +
         R"(}, "requires_grad": false, "device": {"type": "cpu", "index": null}, "layout": 7})";
}

inline std::string named(const std::string& name) {
  return R"({"as_tensor": {"name": ")" + name + R"("}})";
}

/// forward(x) -> linear(x, w) + c, where w is a parameter and c a non-persistent buffer.
class SmallArchive {
 public:
  SmallArchive() {
    records["data/weights/weight_0"] = std::string(24, 'w');
    records["data/weights/model_weights_config.json"] =
        R"({"config": {"fc.w": {"path_name": "weight_0", "is_param": true, "use_pickle": false, )"
        R"("tensor_meta": )" +
        tensor_meta("2,3", "3,1") + "}}}";
    records["data/constants/tensor_1"] = std::string(8, 'c');
    records["data/constants/model_constants_config.json"] =
        R"({"config": {"c": {"path_name": "tensor_1", "is_param": false, "use_pickle": false, )"
        R"("tensor_meta": )" +
        tensor_meta("2", "1") + "}}}";
    records["models/model.json"] = model_json();
    records["archive_format"] = "pt2";
    records["archive_version"] = "0";
    records[".data/version"] = "6\n";
    records["byteorder"] = "little";
  }

  /// Replaces the only occurrence of `from` in a record.
  SmallArchive& change(const std::string& record, const std::string& from, const std::string& to) {
    records[record] = replaced(records[record], from, to);
    return *this;
  }
  SmallArchive& change_model(const std::string& from, const std::string& to) {
    return change("models/model.json", from, to);
  }

  Bytes bytes() const {
    std::ostringstream out;
    ZipWriter zip(out);
    for (const auto& [name, content] : records)
      zip.add((name.starts_with("!") ? name.substr(1) : "m/" + name), as_byte_span(content));
    zip.finish();
    return own_bytes(out.str());
  }
  Pt2Program read(const Pt2Options& options = {}) const {
    return read_pt2(bytes(), "small.pt2", options);
  }

  std::map<std::string, std::string> records;  // below the root; "!name" for one beside it

  /// [s7, columns], row by row.
  static std::string dynamic_meta(const std::string& columns) {
    return replaced(tensor_meta("-7," + columns, columns + ",1"), R"({"as_int": -7})",
                    R"j({"as_expr": {"expr_str": "Symbol('s7', integer=True)", )j"
                    R"("hint": {"as_int": 4}}})");
  }

 private:
  static std::string model_json() {
    return R"({"schema_version": {"major": 8, "minor": 20}, "torch_version": "2.13.0",
"verifiers": ["TRAINING"], "opset_version": {"aten": 10},
"range_constraints": {"s7": {"min_val": 2, "max_val": null}},
"guards_code": ["L['x'].size()[0] != 5", "what?"],
"graph_module": {"graph": {
"inputs": [)" +
           named("p_w") + ", " + named("b_c") + ", " + named("x") + R"(],
"outputs": [)" +
           named("add") + R"(],
"nodes": [
 {"target": "torch.ops.aten.linear.default", "inputs": [
   {"name": "input", "arg": )" +
           named("x") + R"(, "kind": 1},
   {"name": "weight", "arg": )" +
           named("p_w") + R"(, "kind": 1}],
  "outputs": [)" +
           named("linear") + R"(], "metadata": {"stack_trace": "File \"m.py\""},
  "is_hop_single_tensor_return": null, "name": "linear"},
 {"target": "torch.ops.aten.add.Tensor", "inputs": [
   {"name": "self", "arg": )" +
           named("linear") + R"(, "kind": 1},
   {"name": "other", "arg": )" +
           named("b_c") + R"(, "kind": 1}],
  "outputs": [)" +
           named("add") + R"(], "metadata": {}}],
"tensor_values": {"p_w": )" +
           tensor_meta("2,3", "3,1") + R"(, "b_c": )" + tensor_meta("2", "1") + R"(, "x": )" +
           dynamic_meta("3") + R"(, "linear": )" + dynamic_meta("2") + R"(, "add": )" +
           dynamic_meta("2") + R"(},
"sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false},
"signature": {"input_specs": [
 {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "fc.w"}},
 {"buffer": {"arg": {"name": "b_c"}, "buffer_name": "c", "persistent": false}},
 {"user_input": {"arg": )" +
           named("x") + R"(}}],
"output_specs": [{"user_output": {"arg": )" +
           named("add") +
           R"(}}]},
"module_call_graph": [{"fqn": "", "signature": {"inputs": [], "outputs": [],
 "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)"
           R"({\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)"
           R"({\"type\": null, \"context\": null, \"children_spec\": []}]}, )"
           R"({\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]",
 "out_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]",
 "forward_arg_names": ["x"]}}], "metadata": {}, "treespec_namedtuple_fields": {}}})";
  }
};

/// Makes it forward(x, f), with f fixed by the export.
inline SmallArchive& with_constant(SmallArchive& archive, const std::string& value) {
  const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
  return archive
      .change_model(named("x") + "],\n\"outputs\"", named("x") + ", " + value + "],\n\"outputs\"")
      .change_model(R"( {"user_input": {"arg": )" + named("x") + R"(}}])",
                    R"( {"user_input": {"arg": )" + named("x") +
                        R"(}}, {"constant_input": {"name": "f", "value": )" + value + "}}]")
      .change_model(R"(\"children_spec\": [)" + leaf + "]}, ",
                    R"(\"children_spec\": [)" + leaf + ", " + leaf + "]}, ");
}

/// Has the first node preceded by n = x.size(0), an integer, and q = n / 3, a real number.
inline SmallArchive& with_numbers(SmallArchive& archive) {
  const std::string s7 = "Symbol('s7', integer=True)";
  auto sym = [](const std::string& name, const std::string& expr, const std::string& hint) {
    return R"({")" + name + R"(": {"as_expr": {"expr_str": ")" + expr + R"(", "hint": )" + hint +
           "}}}";
  };
  return archive
      .change_model(R"("nodes": [)", R"("nodes": [
 {"target": "torch.ops.aten.sym_size.int", "inputs": [
   {"name": "self", "arg": )" + named("x") +
                                         R"(, "kind": 1},
   {"name": "dim", "arg": {"as_int": 0}, "kind": 1}],
  "outputs": [{"as_sym_int": {"as_name": "n"}}], "metadata": {}},
 {"target": "_operator.truediv", "inputs": [
   {"name": "a", "arg": {"as_sym_int": {"as_name": "n"}}, "kind": 1},
   {"name": "b", "arg": {"as_int": 3}, "kind": 1}],
  "outputs": [{"as_sym_float": {"as_name": "q"}}], "metadata": {}},)")
      .change_model(R"("sym_int_values": {})", R"("sym_int_values": )" +
                                                   sym("n", s7, R"({"as_int": 4})") +
                                                   R"(, "sym_float_values": )" +
                                                   sym("q", "IntTrueDiv(" + s7 + ", Integer(3))",
                                                       R"({"as_float": 1.3333333333333333})"));
}

}  // namespace tenon::formats::testing
