// `tenon ops`: the op table, and what backends make of an op.
#include "core/joined.h"
#include "ops/decompose.h"
#include "ops/op_table.h"

#include "backend/backend.h"
#include "cli/model_options.h"
#include "core/error.h"
#include "debug/op_probe.h"
#include "ops/custom_op.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon::cli {

namespace {

struct OpsOptions {
  std::string name;
  std::vector<std::string> backends;
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
  std::string provider;   ///< the plugin that has the only kernel
  std::string vjp = "-";  ///< "rule", "formula", "parts", "none" (has no gradient) or "-"
};

// Where the derivative of an op comes from.
const char* vjp_of(const OpDef& row, const CustomOp* custom) {
  if (row.vjp.kind == Vjp::Kind::rules || (custom && custom->vjp)) return "rule";
  if (row.vjp.kind == Vjp::Kind::none) return "none";
  if (row.formula) return "formula";
  return row.decomp ? "parts" : "-";
}

Parts parts_of(const OpEntry& op) {
  const OpDef* row = row_of(op);
  if (!row) return {};
  Parts parts;
  parts.formula = static_cast<bool>(row->formula);
  parts.view = static_cast<bool>(row->view);
  parts.meta = parts.formula || parts.view || static_cast<bool>(row->meta);
  parts.kernel = parts.formula || parts.view || static_cast<bool>(row->eager);
  parts.decomposition = can_decompose(op);
  if (row->provider) parts.provider = row->provider;
  parts.vjp = vjp_of(*row, custom_op_of(op));
  return parts;
}

/// What one backend makes of an op.
struct Lowering {
  std::string backend, verdict, why;
  std::vector<std::string> into;  ///< the ops that the backend was given
};

bool has_op(const Json& names, const std::vector<std::string>& ops) {
  return std::ranges::any_of(names.items(), [&](const Json& name) {
    return std::ranges::find(ops, name.text()) != ops.end();
  });
}

Lowering lowering_of(const OpEntry& op, const std::string& backend) {
  OpProbe probe = probe_op(op, backend);
  Lowering out{backend, "taken", "", probe.taken_as};
  if (!probe.has_example) {
    out.verdict = "unknown";
    out.why = "no call that fits could be made up from the schema";
  } else if (!probe.error.empty()) {
    out.verdict = "refused";
    out.why = probe.error;
  } else if (!probe.declined.empty()) {
    out.verdict = "declined";
    out.why = message("{}; {} takes it", probe.declined[0].reason, probe.declined[0].fallback);
  } else if (has_op(stats_of(probe.stats)["extern_ops"], out.into)) {
    out.verdict = "host kernel";
    out.why = "the backend calls the host for it";
  }
  return out;
}

std::vector<Lowering> lowerings_of(const OpEntry& op, const std::vector<std::string>& backends) {
  std::vector<Lowering> out;
  for (const std::string& backend : backends) out.push_back(lowering_of(op, backend));
  return out;
}

bool is_taken_apart(const Lowering& lowering, const OpEntry& op) {
  return !lowering.into.empty() && lowering.into != std::vector<std::string>{op.name};
}

Json to_json(const OpEntry& op, const std::vector<std::string>& backends) {
  Parts parts = parts_of(op);
  Json out{{"name", op.name},
           {"schema", to_text(op.schema)},
           {"tags", tags_of(op)},
           {"core", row_of(op) && row_of(op)->core},
           {"formula", parts.formula},
           {"meta", parts.meta || parts.decomposition},
           {"kernel", parts.kernel},
           {"vjp", parts.vjp},
           {"decomposition", parts.decomposition},
           {"provider", parts.provider.empty() ? Json() : Json(parts.provider)},
           {"plugin_kernels", kernel_plugins(op.name)},
           {"added_by", custom_op_of(op) ? Json(custom_op_of(op)->owner) : Json()},
           {"derived_from", op.functional ? Json(op.functional->name) : Json()},
           {"lowering", Json::Array{}}};
  for (const Lowering& l : lowerings_of(op, backends))
    out["lowering"].items().push_back(
        {{"backend", l.backend}, {"verdict", l.verdict}, {"into", l.into}, {"why", l.why}});
  return out;
}

// The ops whose name is `name`, or begins with it and a point.
std::vector<const OpEntry*> ops_named(std::string_view name) {
  // Plugins that declare the op are loaded by looking for it.
  if (!find_op(name)) find_op(std::string(name) + ".default");
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

std::string shown_kernel(const Parts& parts) {
  if (!parts.provider.empty()) return "plugin";
  return parts.formula ? "formula" : mark(parts.kernel);
}

void print_table(const std::vector<const OpEntry*>& ops, const std::vector<std::string>& backends) {
  std::vector<std::string> header{"OP", "META", "KERNEL", "VJP", "DECOMP"};
  header.insert(header.end(), backends.begin(), backends.end());
  header.push_back("TAGS");
  Table table(header);
  for (const OpEntry* op : ops) {
    Parts parts = parts_of(*op);
    std::vector<std::string> row{op->name, mark(parts.meta || parts.decomposition),
                                 shown_kernel(parts), parts.vjp, mark(parts.decomposition)};
    for (const Lowering& l : lowerings_of(*op, backends))
      row.push_back(l.verdict == "taken" && is_taken_apart(l, *op) ? "taken apart" : l.verdict);
    row.push_back(joined(tags_of(*op), ","));
    table.add(std::move(row));
  }
  print(table.text());
  print(message("{} ops\n", ops.size()));
}

void print_lowering(const Lowering& l, const OpEntry& op) {
  print(message("  on {}: {}", l.backend, l.verdict));
  if (is_taken_apart(l, op)) print(", taken apart into " + joined(l.into));
  print(l.why.empty() ? "\n" : "; " + l.why + "\n");
}

void print_details(const OpEntry& op, const std::vector<std::string>& backends) {
  Parts parts = parts_of(op);
  std::vector<std::string> plugins = kernel_plugins(op.name);
  print(bold(op.name) + "\n");
  print("  schema         " + to_text(op.schema) + "\n");
  print("  tags           " + joined(tags_of(op)) + "\n");
  if (const CustomOp* custom = custom_op_of(op)) print("  added by       " + custom->owner + "\n");
  if (op.functional)
    print(message("  {} form of {}\n", op.out_form ? "out" : "in-place", op.functional->name));
  print(message("  formula        {}\n  meta           {}\n  kernel         {}\n",
                mark(parts.formula), mark(parts.meta || parts.decomposition),
                parts.provider.empty() ? mark(parts.kernel) : "in the plugin " + parts.provider));
  print(
      message("  vjp            {}\n  decomposition  {}\n", parts.vjp, mark(parts.decomposition)));
  print(message("  plugin kernels {}\n", plugins.empty() ? "-" : joined(plugins)));
  for (const Lowering& l : lowerings_of(op, backends)) print_lowering(l, op);
}

int show_ops(const OpsOptions& options, const Globals& globals) {
  std::vector<const OpEntry*> ops = ops_named(options.name);
  std::vector<std::string> backends;
  require(options.backends.empty() || !options.name.empty(),
          "--backend needs the NAME of an op, such as aten.add.Tensor");
  if (!options.backends.empty()) backends = backend_names(options.backends);
  leave_stdout_to_json();
  if (globals.json) {
    Json document{{"schema", 1}, {"ops", Json::Array{}}};
    for (const OpEntry* op : ops) document["ops"].items().push_back(to_json(*op, backends));
    print_json(document);
  } else if (options.name.empty()) {
    print_table(ops, backends);
  } else {
    for (const OpEntry* op : ops) print_details(*op, backends);
  }
  return 0;
}

Action build_ops(Options& app) {
  auto options = std::make_shared<OpsOptions>();
  app.add_option("NAME", options->name, "an op: aten.add.Tensor, aten.add or add");
  app.add_option("--backend", options->backends,
                 "what these backends make of the ops, found out by compiling a call")
      .one_at_a_time();
  return [options](const Globals& globals) { return show_ops(*options, globals); };
}

}  // namespace

extern constinit const Verb verb_ops{.name = "ops",
                                     .summary = "shows the op table",
                                     .example = "tenon ops aten.add.Tensor --backend inductor",
                                     .build = build_ops};

}  // namespace tenon::cli
