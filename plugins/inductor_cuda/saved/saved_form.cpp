// The saved form: for which device, the parts, which kernels share a launch, and images by name.
#include "saved_form.h"

#include "../library_items.h"
#include "../options.h"
#include "saved_fields.h"

#include <loopir/saving/bytes.h>
#include <loopir/saving/saved_program.h>

#include <algorithm>
#include <set>

namespace inductor_cuda {

using loopir::expect_saved;
using tenon::plugin::error;
using tenon::plugin::text;

/// Where code runs.
struct Target {
  std::string arch;
  uint32_t driver = 0;  // 13000
};

template <class V>
void fields(V& v, Target& t) {
  loopir::each(v, t.arch, t.driver);
}

namespace {

constexpr loopir::SavedHead head{.magic = "inductor_cuda", .version = 6};

/// Items of the members, by first item, in the order of their blocks.
using Members = std::map<size_t, std::vector<uint64_t>>;

Members members_of(const Parts& parts) {
  Members out;
  for (const auto& [item, group] : parts.groups)
    for (const CompiledKernel* m : group.members) out[item].push_back(m->item);
  return out;
}

SavedImages images_of(const Parts& parts) {
  SavedImages out;
  for (const auto* kernels : {&parts.kernels, &parts.groups})
    for (const auto& [item, kernel] : *kernels)
      if (kernel.code) out.emplace(kernel.code_name, kernel.code->image());
  for (const auto& [item, product] : parts.products) product->add_image(out);
  return out;
}

// ---- what calls rely on and the fields alone do not say

void check_plan(const loopir::Program& p, const KernelPlan& plan) {
  constexpr unsigned most_threads = 1024;
  constexpr int64_t most_scratch = int64_t{1} << 40;
  const unsigned threads = plan.form.threads;
  expect_saved(threads > 0 && threads <= most_threads, "a kernel of impossible blocks");
  expect_saved(plan.units != none && plan.blocks != none, "a kernel of unknown size");
  expect_saved(plan.scratch_bytes >= 0 && plan.scratch_bytes < most_scratch,
               "a kernel of impossible memory");
  for (const Multiple& m : plan.conditions.multiples)
    expect_saved(m.index != none && m.of > 0, "a condition about nothing");
  for (const auto& [buffer, bytes] : plan.conditions.aligned)
    expect_saved(buffer < p.buffers.size(), "a condition about an unknown buffer");
  for (uint32_t place : plan.numbers)
    expect_saved(place < p.expressions.symbols.size() + p.reals.size(), "an unknown number");
  for (Id b : plan.host_numbers)
    expect_saved(p.buffers[b].place == loopir::Buffer::Place::number, "a number on the device");
}

void check_kernels(const Parts& parts) {
  for (const auto* kernels : {&parts.kernels, &parts.groups})
    for (const auto& [item, kernel] : *kernels) {
      expect_saved(item < parts.schedule.items.size() &&
                       kernel.item == (kernels == &parts.groups ? 0 : item),
                   "a kernel of another item");
      for (const KernelPlan& plan : kernel.plans) check_plan(parts.program, plan);
    }
  for (const auto& [item, kernel] : parts.kernels) {
    bool runs_alone = !parts.is_in_group[item];
    expect_saved(
        !kernel.plans.empty() && kernel.symbols.size() == (runs_alone ? kernel.plans.size() : 0),
        "a kernel without code");
  }
}

// Each kernel of a group is run by one launch, at the place of the group's first.
void bind_members(Parts& parts, const Members& members) {
  std::set<size_t> seen;
  expect_saved(members.size() == parts.groups.size(), "groups without members");
  for (const auto& [first, items] : members) {
    auto group = parts.groups.find(first);
    expect_saved(group != parts.groups.end() && !items.empty(), "members of no group");
    for (uint64_t item : items) {
      auto kernel = parts.kernels.find(item);
      bool is_member = kernel != parts.kernels.end() && parts.is_in_group[item] && item >= first &&
                       seen.insert(item).second;
      expect_saved(is_member, "a member of a group that is none");
      group->second.members.push_back(&kernel->second);
    }
    const CompiledKernel& made = group->second;
    expect_saved(
        made.plans.empty() && made.symbols.size() == made.versions() && seen.contains(first),
        "a group without code");
  }
  for (size_t i = 0; i < parts.is_in_group.size(); ++i)
    expect_saved(parts.is_in_group[i] == seen.contains(i), "a kernel that nothing runs");
}

// Memory of what is kept is planned before there are sizes.
void check_static(const Parts& parts, size_t item) {
  expect_saved(parts.kernels.contains(item), "a kept result that is no kernel's");
  for (Id b : parts.accesses[item].writes)
    for (Id size : parts.program.buffers[b].sizes)
      expect_saved(size != none && parts.program.expressions.number_of(size).has_value(),
                   "a kept result of unknown size");
}

void check_items(const Parts& parts) {
  constexpr uint32_t most_branches = 32;  // as the option has it
  size_t n = parts.schedule.items.size();
  expect_saved(parts.most_branches > 0 && parts.most_branches <= most_branches,
               "an impossible number of branches");
  expect_saved(parts.accesses.size() == n && parts.accesses_of_launches.size() == n &&
                   parts.is_static.size() == n && parts.is_in_group.size() == n,
               "lists of items of different lengths");
  for (size_t i = 0; i < n; ++i) {
    const loopir::Item& item = parts.schedule.items[i];
    expect_saved(parts.kernels.contains(i) == std::holds_alternative<loopir::Kernel>(item),
                 "a kernel without code");
    expect_saved(parts.externs.contains(i) == std::holds_alternative<loopir::Extern>(item),
                 "an op without arguments");
    expect_saved(!std::holds_alternative<loopir::Recurrence>(item), "an item of another device");
    loopir::check_saved(parts.program, item, loopir::Multiplier::any);
    if (parts.is_static[i]) check_static(parts, i);
  }
}

void check_writes(const Parts& parts) {
  const auto& buffers = parts.program.buffers;
  auto is_input = [&](Id b) { return buffers[b].place == loopir::Buffer::Place::input; };
  for (const Update& u : parts.updates)
    expect_saved(is_input(u.input) && buffers[u.buffer].dtype == buffers[u.input].dtype &&
                     buffers[u.buffer].sizes == buffers[u.input].sizes,
                 "a new value of no input");
  for (Id b : parts.written_inputs) expect_saved(is_input(b), "a new value of no input");
}

void require_same_target(const Target& made_for, const Device& device) {
  if (made_for.arch != device.arch)
    throw error(
        TN_FAILED_PRECONDITION,
        text("the code is for GPUs of architecture {}, device {} is {}; compile it again on "
             "such a device",
             made_for.arch, device.index, device.arch));
  auto version = [](uint32_t n) { return text("{}.{}", n / 1000, n % 1000 / 10); };
  if (made_for.driver > device.facts.driver_version)
    throw error(TN_FAILED_PRECONDITION,
                text("the code was made by a driver of CUDA {}, this one is of {}; install that "
                     "driver or a newer one, or compile it again",
                     version(made_for.driver), version(device.facts.driver_version)));
}

}  // namespace

std::string with_head(SavedKind kind, std::string_view body) {
  return loopir::with_head(head, std::string(1, static_cast<char>(kind)).append(body));
}

std::string_view body_of(std::string_view bytes, SavedKind& kind) {
  std::string_view body = loopir::body_of(head, bytes);
  expect_saved(
      !body.empty() && static_cast<uint8_t>(body[0]) <= static_cast<uint8_t>(SavedKind::graph_mode),
      "code of an unknown kind");
  kind = static_cast<SavedKind>(body[0]);
  return body.substr(1);
}

std::string saved_form(Parts& parts) {
  loopir::Writer writer(parts.program.expressions);
  Target target{parts.device.arch, parts.device.facts.driver_version};
  Members members = members_of(parts);
  SavedImages images = images_of(parts);
  writer(target);
  writer(parts);
  writer(members);
  std::vector<std::pair<std::string, std::string>> listed(images.begin(), images.end());
  writer(listed);
  return with_head(SavedKind::launches, writer.take());
}

std::unique_ptr<Executable> load_executable(const tn_compile_request& request,
                                            const Machine& machine, std::string_view bytes) {
  SavedKind kind{};
  loopir::Reader reader(body_of(bytes, kind));
  expect_saved(kind == SavedKind::launches, "recordings where a list of launches is expected");
  Parts parts;
  Target target;
  Members members;
  std::vector<std::pair<std::string, std::string>> listed;
  reader(target);
  parts.device = device_of(machine, request);
  require_same_target(target, parts.device);
  reader(parts);
  reader(members);
  reader(listed);
  reader.finish();
  loopir::bind_saved(parts.program, request);
  check_items(parts);
  check_kernels(parts);
  check_writes(parts);
  bind_members(parts, members);
  begin_products(parts);
  for (auto& [item, call] : parts.externs) call.link(parts.program);
  SavedImages images(std::make_move_iterator(listed.begin()),
                     std::make_move_iterator(listed.end()));
  std::vector<CompiledKernel*> kernels;
  for (auto* list : {&parts.kernels, &parts.groups})
    for (auto& [item, kernel] : *list)
      if (!kernel.symbols.empty()) kernels.push_back(&kernel);
  parts.profiles = Given::read(request).profile;
  take_code(images, parts.device, kernels);
  make_library_items(request.ctx, parts, &images);
  parts.statistics.code.from_disk = std::max(parts.statistics.code.distinct, 1u);
  return std::make_unique<Executable>(std::move(parts));
}

}  // namespace inductor_cuda
