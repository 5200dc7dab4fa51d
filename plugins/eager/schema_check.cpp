// The checks of eager_debug: bytes of the arguments before and after, storages of the results.
#include "schema_check.h"

using namespace tenon::plugin;

namespace {

struct Argument {
  size_t position;
  const tn_tensor* tensor;
};

std::vector<Argument> tensors_of(const step& s) {
  std::vector<Argument> out;
  for (size_t i = 0; i < s.args.size(); ++i) {
    const tn_arg& a = s.args[i];
    if (a.kind == TN_ARG_VALUE) out.push_back({i, s.values[a.u.value]});
    for (uint32_t k = 0; a.kind == TN_ARG_VALUES && k < a.count; ++k)
      if (a.u.values[k] != TN_NO_VALUE) out.push_back({i, s.values[a.u.values[k]]});
  }
  std::erase_if(out, [](const Argument& a) { return a.tensor == nullptr; });
  return out;
}

tensor copy_of(const tn_tensor* t) {
  tensor out = tensor::empty(sizes(t), t->dtype, t->device_type, t->device_index);
  out.copy_from(t);
  return out;
}

// Compared as bytes: a NaN that stays is not a change.
bool same_values(const tensor& before, const tn_tensor* now) {
  if (!std::ranges::equal(sizes(before.get()), sizes(now))) return false;
  if (before->numel == 0) return true;
  tensor after = copy_of(now);
  return std::memcmp(before->data, after->data,
                     static_cast<size_t>(before->numel * item_size(before->dtype))) == 0;
}

}  // namespace

SchemaChecked::SchemaChecked(const tn_compile_request& request) : program_(request) {
  graph g(request);
  for (uint32_t i = 0; i < g.size(); ++i) declared_.push_back(declared_by(g.at(i).op));
}

SchemaChecked::Declared SchemaChecked::declared_by(uint32_t op) {
  tn_op_info info{};
  info.struct_size = sizeof info;
  check(host->ops->info(op, &info));
  Declared out;
  for (uint32_t i = 0; i < info.n_args; ++i) {
    std::string_view alias = sv(info.args[i].alias);
    out.names.emplace_back(sv(info.args[i].name));
    out.aliases.push_back(!alias.empty());
    out.writes.push_back(alias.find('!') != std::string_view::npos);
  }
  // Such as reshape and contiguous: whether they alias depends on the strides.
  if (info.tags & TN_TAG_MAYBE_ALIAS) out.aliases.assign(out.aliases.size(), true);
  return out;
}

void SchemaChecked::call(tn_call& c) {
  program_.run(c, [this](const step& s, auto&& run) {
    const Declared& declared = declared_[s.index];
    std::vector<Argument> args = tensors_of(s);
    // Of one storage, as in x.mul_(x): what is declared of one argument holds for the others.
    std::vector<uint64_t> may_change, may_be_given;
    for (const Argument& a : args) {
      if (declared.writes[a.position]) may_change.push_back(a.tensor->storage_id);
      if (declared.aliases[a.position]) may_be_given.push_back(a.tensor->storage_id);
    }
    std::vector<tensor> before;
    for (const Argument& a : args) {
      bool watched = a.tensor->device_type == TN_DEV_CPU &&
                     std::ranges::find(may_change, a.tensor->storage_id) == may_change.end();
      before.push_back(watched ? copy_of(a.tensor) : tensor());
    }
    run();
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string& name = declared.names[args[i].position];
      if (before[i] && !same_values(before[i], args[i].tensor))
        throw error(TN_INTERNAL, text("eager_debug: node {} ({}) changed argument {}, which its "
                                      "schema does not declare as written; write Tensor(a!) {}",
                                      s.name, s.node.op_name, name, name));
      for (const tn_tensor* result : s.results())
        if (result && result->storage_id == args[i].tensor->storage_id && result->numel &&
            std::ranges::find(may_be_given, result->storage_id) == may_be_given.end())
          throw error(TN_INTERNAL,
                      text("eager_debug: node {} ({}) gave a result in the storage of "
                           "argument {}, which its schema does not declare as an alias; "
                           "write Tensor(a) {}, or return a copy",
                           s.name, s.node.op_name, name, name));
    }
  });
}
