// `tenon ops`: the op table, and which backends say that they take an op.
#include "ops/op_table.h"

#include "cli/output.h"
#include "cli/verb.h"
#include "core/error.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon::cli {

namespace {

struct OpsOptions {
  std::string name;
};

struct TagName {
  uint64_t bit;
  std::string_view name;
};
constexpr TagName tag_names[] = {
    {TN_TAG_POINTWISE, "pointwise"},
    {TN_TAG_REDUCTION, "reduction"},
    {TN_TAG_VIEW, "view"},
    {TN_TAG_INPLACE, "in_place"},
    {TN_TAG_RANDOM, "random"},
    {TN_TAG_DATA_DEPENDENT, "data_dependent"},
    {TN_TAG_MATMUL, "matmul"},
    {TN_TAG_CONV, "convolution"},
    {TN_TAG_SIDE_EFFECT, "side_effect"},
    {TN_TAG_CREATION, "creation"},
    {TN_TAG_CORE, "core"},
};

std::vector<std::string> tags_of(const OpEntry& op) {
  std::vector<std::string> out;
  for (const TagName& tag : tag_names)
    if (op.tags & tag.bit) out.emplace_back(tag.name);
  return out;
}

// Where the row of an op lies: its own, or the one that an in-place form is derived from.
const OpDef* row_of(const OpEntry& op) {
  if (op.def) return op.def;
  return op.functional ? op.functional->def : nullptr;
}

struct Parts {
  bool formula = false, meta = false, view = false, kernel = false, decomposition = false;
};

Parts parts_of(const OpEntry& op) {
  const OpDef* row = row_of(op);
  if (!row) return {};
  Parts parts;
  parts.formula = static_cast<bool>(row->formula);
  parts.view = static_cast<bool>(row->view);
  parts.meta = parts.formula || parts.view || static_cast<bool>(row->meta);
  parts.kernel = parts.formula || parts.view || static_cast<bool>(row->eager);
  parts.decomposition = static_cast<bool>(row->decomp);
  return parts;
}

Json to_json(const OpEntry& op) {
  Parts parts = parts_of(op);
  return {{"name", op.name},
          {"schema", to_text(op.schema)},
          {"tags", tags_of(op)},
          {"core", row_of(op) && row_of(op)->core},
          {"formula", parts.formula},
          {"meta", parts.meta || parts.decomposition},
          {"kernel", parts.kernel},
          {"decomposition", parts.decomposition},
          {"plugin_kernels", op.foreign.size()},
          {"derived_from", op.functional ? Json(op.functional->name) : Json()}};
}

// The ops whose name is `name`, or begins with it and a point.
std::vector<const OpEntry*> ops_named(std::string_view name) {
  std::vector<std::string> names = all_op_names();
  std::sort(names.begin(), names.end());
  std::string prefix = std::string(name) + ".";
  std::vector<const OpEntry*> out;
  for (const std::string& n : names)
    if (name.empty() || n == name || n.starts_with(prefix) || n.starts_with("aten." + prefix))
      out.push_back(find_op(n));
  require(!out.empty(), "there is no op '{}'; the nearest are {}", name,
          nearest_names(name, names));
  return out;
}

std::string mark(bool has) { return has ? "yes" : "-"; }

void print_table(const std::vector<const OpEntry*>& ops) {
  Table table({"OP", "META", "KERNEL", "DECOMP", "TAGS"});
  for (const OpEntry* op : ops) {
    Parts parts = parts_of(*op);
    table.add({op->name, mark(parts.meta || parts.decomposition),
               parts.formula ? "formula" : mark(parts.kernel), mark(parts.decomposition),
               join(tags_of(*op), ",")});
  }
  print(table.text());
  print(message("{} ops\n", ops.size()));
}

void print_details(const OpEntry& op) {
  Parts parts = parts_of(op);
  print(bold(op.name) + "\n");
  print("  schema         " + to_text(op.schema) + "\n");
  print("  tags           " + join(tags_of(op), ", ") + "\n");
  if (op.functional) print("  in-place form of " + op.functional->name + "\n");
  print(message("  formula        {}\n  meta           {}\n  kernel         {}\n",
                mark(parts.formula), mark(parts.meta || parts.decomposition), mark(parts.kernel)));
  print(message("  decomposition  {}\n  plugin kernels {}\n", mark(parts.decomposition),
                op.foreign.size()));
}

int show_ops(const OpsOptions& options, const Globals& globals) {
  std::vector<const OpEntry*> ops = ops_named(options.name);
  if (globals.json) {
    Json document{{"schema", 1}, {"ops", Json::array()}};
    for (const OpEntry* op : ops) document["ops"].push_back(to_json(*op));
    print_json(document);
  } else if (options.name.empty()) {
    print_table(ops);
  } else {
    for (const OpEntry* op : ops) print_details(*op);
  }
  return 0;
}

Action build(CLI::App& app) {
  auto options = std::make_shared<OpsOptions>();
  app.add_option("NAME", options->name, "an op: aten.add.Tensor, aten.add or add");
  return [options](const Globals& globals) { return show_ops(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_ops{.name = "ops",
                                     .summary = "shows the op table",
                                     .example = "tenon ops aten.add.Tensor",
                                     .build = build};

}  // namespace tenon::cli
