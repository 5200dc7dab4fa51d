// Writer of the generated files: headers, ids, stubs and the list of families.
#include "ops/opgen/write.h"

#include "ops/opgen/cpp_types.h"

#include <algorithm>
#include <array>
#include <set>

namespace tenon::opgen {

namespace {

struct Overload {
  Schema schema;
  std::string place, room;
};

constexpr std::string_view head =
    "// SPDX-License-Identifier: Apache-2.0\n"
    "// Written by opgen from the op rows; do not edit.\n";

std::string id_of(const Schema& schema) {
  std::string id = schema.canonical_name();
  std::replace(id.begin(), id.end(), '.', '_');
  return id;
}

void add(std::map<std::string, Overload>& all, Overload overload) {
  std::string name = overload.schema.canonical_name();
  auto [at, is_new] = all.try_emplace(name, overload);
  require(is_new, "{}: {} is defined twice, first at {}; remove one of the rows or its variants",
          overload.place, name, at->second.place);
}

// Every overload by canonical name, derived forms included.
std::map<std::string, Overload> collect(const std::vector<RowFile>& files) {
  std::map<std::string, Overload> all;
  for (const RowFile& file : files) {
    for (const Row& row : file.rows) {
      add(all, {row.schema, row.place, file.room});
      try {
        if (row.in_place) add(all, {in_place_schema(row.schema), row.place, file.room});
        if (row.out) add(all, {out_schema(row.schema), row.place, file.room});
      } catch (const UserError& error) {
        std::string_view what = error.what();
        if (what.starts_with(row.place)) throw;
        fail("{}: {}", row.place, what);
      }
    }
  }
  return all;
}

// The parameters from `first` on, in parentheses.
std::string declarator(const Function& f, size_t first, bool with_defaults) {
  std::string out = "(";
  for (size_t i = first; i < f.params.size(); ++i) {
    const Param& p = f.params[i];
    if (i > first) out += ", ";
    out += (p.exact ? message("Bool{}", i) : p.type) + " " + p.name;
    if (with_defaults && i >= f.required) out += " = " + p.default_text;
  }
  return out + ")";
}

// "template <std::same_as<bool> Bool1 = bool> " for the exact bools.
std::string template_head(const Function& f, bool with_defaults) {
  std::string list;
  for (size_t i = 0; i < f.params.size(); ++i)
    if (f.params[i].exact)
      list += message("{}std::same_as<bool> Bool{}{}", list.empty() ? "" : ", ", i,
                      with_defaults ? " = bool" : "");
  return list.empty() ? "" : "template <" + list + ">\n";
}

// The explicit instantiation of a function with exact bools.
std::string instantiation(const Function& f, const std::string& name, size_t first,
                          std::string_view suffix) {
  std::string arguments, types;
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (f.params[i].exact) arguments += arguments.empty() ? "bool" : ", bool";
    if (i >= first) types += (i > first ? ", " : "") + f.params[i].type;
  }
  if (arguments.empty()) return "";
  return message("template TENON_API {} {}<{}>({}){};\n", f.result, name, arguments, types, suffix);
}

std::string declaration(const Function& f) {
  return "/// " + to_text(f.schema) + "\n" + template_head(f, true) + "TENON_API " + f.result +
         " " + f.name + declarator(f, 0, true) + ";\n";
}

std::string method_declaration(const Function& f) {
  return "/// " + to_text(f.schema) + "\n" + template_head(f, true) + f.result + " " + f.name +
         declarator(f, 1, true) + " const;\n";
}

// `Value args_[] = {...};` in schema order; an argument without a parameter is None.
std::string packed(const Function& f) {
  std::vector<std::string> values(f.schema.args.size(), "Value()");
  for (const Param& p : f.params) values[p.arg] = message("Value::of({})", p.name);
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + value;
  return list.empty() ? "" : message("  Value args_[] = {{{}}};\n", list);
}

std::string unpacked(const Function& f) {
  size_t n = f.schema.returns.size();
  if (n == 0) return "";
  if (n == 1) return message("  return take<{}>(results_[0]);\n", f.result);
  std::string list;
  for (size_t i = 0; i < n; ++i)
    list += message("{}take<{}>(results_[{}])", i ? ", " : "", f.result_types[i], i);
  return message("  return {{{}}};\n", list);
}

std::string stub(const Function& f) {
  size_t n_args = f.schema.args.size(), n_results = f.schema.returns.size();
  std::string out = template_head(f, false) + f.result + " " + f.name + declarator(f, 0, false);
  out += " {\n" + packed(f);
  if (n_results > 0) out += message("  Value results_[{}];\n", n_results);
  out +=
      message("  call_op(OpId::{}, {}, {}, {}, {});\n", id_of(f.schema),
              n_args ? "args_" : "nullptr", n_args, n_results ? "results_" : "nullptr", n_results);
  return out + unpacked(f) + "}\n" + instantiation(f, f.name, 0, "");
}

std::string method_stub(const Function& f) {
  std::string name = "Tensor::" + f.name;
  std::string out = template_head(f, false) + f.result + " " + name + declarator(f, 1, false);
  std::string forwarded = "*this";
  for (size_t i = 1; i < f.params.size(); ++i) forwarded += ", " + f.params[i].name;
  out += message(" const {{ return tenon::{}({}); }\n", f.name, forwarded);
  return out + instantiation(f, name, 1, " const");
}

// `text` of each function, those outside aten in a namespace of their own.
template <class F>
std::string in_namespaces(const std::vector<const Function*>& functions, F&& text) {
  std::string out = "namespace tenon {\n", space;
  for (const Function* f : functions) {
    if (f->space() != space) {
      if (!space.empty()) out += "}\n";
      space = f->space();
      if (!space.empty()) out += message("\nnamespace {} {{\n", space);
    }
    out += "\n" + text(*f);
  }
  return out + (space.empty() ? "" : "}\n") + "\n}  // namespace tenon\n";
}

using Rooms = std::map<std::string, std::vector<const Function*>>;

// By room. All overloads of a name stand where its first one does: a call must see all of them to
// find the right one.
Rooms by_room(const std::vector<Function>& functions, const std::map<std::string, Overload>& all) {
  Rooms rooms;
  std::map<std::string, std::string> room_of_name;
  for (const Function& f : functions) {
    auto [room, is_new] =
        room_of_name.try_emplace(f.space() + "::" + f.name, all.at(f.schema.canonical_name()).room);
    rooms[room->second].push_back(&f);
  }
  return rooms;
}

// The classes of results with names, each once.
std::map<std::string, const Function*> named_results(const std::vector<Function>& functions) {
  std::map<std::string, const Function*> classes;
  for (const Function& f : functions) {
    if (f.tuple.empty()) continue;
    auto [at, is_new] = classes.try_emplace(f.result.substr(f.result.rfind(':') + 1), &f);
    require(at->second->tuple == f.tuple, "{}: results of these names have other types in {}",
            f.schema.canonical_name(), at->second->schema.canonical_name());
  }
  return classes;
}

std::string result_names(const std::map<std::string, const Function*>& classes) {
  std::string list;
  for (const auto& [name, f] : classes) list += "struct " + name + ";\n";
  return std::string(head) + "// Classes of results with names, defined in <tenon/results.inc>.\n" +
         "namespace tenon::results {\n" + list + "}\n";
}

// A template with `word` in place of each $.
std::string with(std::string text, std::string_view word) {
  for (size_t at = 0; (at = text.find('$', at)) != std::string::npos; at += word.size())
    text.replace(at, 1, word);
  return text;
}

std::string result_class(const std::string& name, const Function& f) {
  std::string members;
  for (size_t i = 0; i < f.result_types.size(); ++i)
    members += message("  {}& {} = std::get<{}>(as_tuple());\n", f.result_types[i],
                       identifier(f.schema.returns[i].name), i);
  return message("struct {} : {} {{\n  using Tuple = {};\n", name, f.tuple, f.tuple) +
         with(
             "  using Tuple::Tuple;\n"
             "  $() = default;\n"
             "  $(const $& other) : Tuple(other.as_tuple()) {}\n"
             "  $($&& other) noexcept : Tuple(std::move(other.as_tuple())) {}\n"
             "  $& operator=(const $& other) {\n"
             "    as_tuple() = other.as_tuple();\n"
             "    return *this;\n"
             "  }\n"
             "  Tuple& as_tuple() { return *this; }\n"
             "  const Tuple& as_tuple() const { return *this; }\n",
             name) +
         members + "};\n";
}

std::string result_classes(const std::map<std::string, const Function*>& classes) {
  std::string list, sizes;
  for (const auto& [name, f] : classes) {
    list += "\n" + result_class(name, *f);
    sizes += with(
        "\ntemplate <>\nstruct tuple_size<tenon::results::$> : "
        "tuple_size<tenon::results::$::Tuple> {};\n"
        "template <size_t I>\nstruct tuple_element<I, tenon::results::$> : "
        "tuple_element<I, tenon::results::$::Tuple> {};\n",
        name);
  }
  return std::string(head) +
         "// Included by <tenon/tensor.h>. What ops with several results give: x.topk(2).values. "
         "Each\n"
         "// is also a std::tuple, for std::get, std::tie and structured bindings.\n"
         "}  // namespace tenon\n\nnamespace tenon::results {\n" +
         list + "\n}  // namespace tenon::results\n\nnamespace std {\n" + sizes +
         "\n}  // namespace std\n\nnamespace tenon {\n";
}

std::string room_header(const std::string& room, const std::vector<const Function*>& functions) {
  return std::string(head) +
         message(
             "// The functions of the ops of host/ops/{}, under their ATen names; above each "
             "stands its\n// schema.\n#pragma once\n\n#include <tenon/tensor.h>\n\n",
             room) +
         in_namespaces(functions, declaration);
}

std::string ops_header(const Rooms& rooms) {
  std::string out = std::string(head) + "// The functions of all ops.\n#pragma once\n\n";
  for (const auto& [room, functions] : rooms) out += message("#include <tenon/ops/{}.h>\n", room);
  return out;
}

std::string methods(const std::vector<const Function*>& functions) {
  std::string out = std::string(head) + "// Included inside class Tensor.\n";
  for (const Function* f : functions)
    if (f->is_method) out += "\n" + method_declaration(*f);
  return out;
}

std::string stubs(const std::vector<const Function*>& functions) {
  return std::string(head) +
         "#include <tenon/ops.h>\n\n#include \"core/dispatch.h\"\n#include \"ops/op_ids.h\"\n\n" +
         in_namespaces(functions, [](const Function& f) {
           return stub(f) + (f.is_method ? method_stub(f) : "");
         });
}

std::string ids(const std::map<std::string, Overload>& all) {
  std::string out = std::string(head) +
                    "#pragma once\n\n#include <cstdint>\n\nnamespace tenon {\n\n"
                    "/// Positions in the sorted list of names; private to one build.\n"
                    "enum class OpId : uint32_t {\n";
  std::map<std::string, std::string> names;
  for (const auto& [name, overload] : all) {
    auto [at, is_new] = names.try_emplace(id_of(overload.schema), name);
    require(is_new, "{}: {} and {} get the same identifier; rename one of them", overload.place,
            at->second, name);
    out += "  " + at->first + ",\n";
  }
  return out + message(
                   "}};\n\n"
                   "/// Ops of the rows; custom ops are numbered from here on.\n"
                   "inline constexpr uint32_t n_row_ops = {};\n"
                   "/// By id: \"aten.add.Tensor\".\n"
                   "extern const char* const op_names[];\n\n}}  // namespace tenon\n",
                   all.size());
}

std::string families(const std::map<std::string, Overload>& all,
                     const std::set<std::string>& families) {
  std::string declared, table, names;
  for (const std::string& family : families) {
    declared += message("extern const OpFamily op_family_{};\n", family);
    table += message("    &ops::op_family_{},\n", family);
  }
  for (const auto& [name, overload] : all) names += message("    \"{}\",\n", name);
  // A last entry keeps the arrays legal where there are no rows.
  return std::string(head) + message(
                                 "#include \"ops/op.h\"\n#include \"ops/op_ids.h\"\n\n"
                                 "namespace tenon::ops {{\n{}}}\n\n"
                                 "namespace tenon {{\n\n"
                                 "extern const OpFamily* const op_families[];\n"
                                 "extern const size_t n_op_families;\n"
                                 "const OpFamily* const op_families[] = {{\n{}    nullptr}};\n"
                                 "const size_t n_op_families = {};\n\n"
                                 "const char* const op_names[] = {{\n{}    nullptr}};\n\n"
                                 "}}  // namespace tenon\n",
                                 declared, table, families.size(), names);
}

std::set<std::string> family_names(const std::vector<RowFile>& files) {
  std::set<std::string> names;
  for (const RowFile& file : files) {
    if (file.rows.empty()) continue;
    require(names.insert(file.family).second,
            "{}: family {} comes from another file too; rename one of the files", file.path,
            file.family);
  }
  return names;
}

// FNV-1a of the name: an op stays in its file when others are added.
size_t stub_file(const Function& f) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : f.schema.canonical_name())
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return (hash >> 32) % n_stub_files;
}

}  // namespace

std::map<std::string, std::string> generate(const std::vector<RowFile>& files) {
  std::map<std::string, Overload> all = collect(files);
  std::set<std::string> names = family_names(files);
  std::vector<Schema> schemas;
  for (const auto& [name, overload] : all) schemas.push_back(overload.schema);

  std::vector<Function> functions = make_functions(schemas);
  std::vector<const Function*> every;
  std::array<std::vector<const Function*>, n_stub_files> parts;
  for (const Function& f : functions) {
    every.push_back(&f);
    parts[stub_file(f)].push_back(&f);
  }

  Rooms rooms = by_room(functions, all);

  std::map<std::string, std::string> out;
  out["tenon/ops.h"] = ops_header(rooms);
  for (const auto& [room, in_room] : rooms)
    out[message("tenon/ops/{}.h", room)] = room_header(room, in_room);
  out["tenon/tensor_methods.inc"] = methods(every);
  std::map<std::string, const Function*> classes = named_results(functions);
  out["tenon/result_names.inc"] = result_names(classes);
  out["tenon/results.inc"] = result_classes(classes);
  out["ops/op_ids.h"] = ids(all);
  out["ops/op_families.cpp"] = families(all, names);
  for (size_t i = 0; i < n_stub_files; ++i) out[message("ops/ops_{}.cpp", i)] = stubs(parts[i]);
  return out;
}

}  // namespace tenon::opgen
