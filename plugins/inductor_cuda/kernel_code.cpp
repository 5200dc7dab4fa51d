// Looking up and making code.
//
// A kernel's versions are one image. Its name is the digest of all that decides about it, so that
// images are found in the process, then in the host's cache, where they lie as machine code behind
// a digest; one that is damaged is a miss.
#include "kernel_code.h"

#include "disk_cache.h"
#include "emit/kernel_function.h"
#include "image.h"

#include <loopir/making/digest.h>
#include <loopir/making/long_chunks.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

namespace inductor_cuda {

using loopir::digest;
using tenon::plugin::error;
using tenon::plugin::text;

namespace {

/// Code that artifacts of this process hold.
class Known {
 public:
  std::shared_ptr<const LoadedCode> find(const std::string& name) {
    std::lock_guard lock(guarding_);
    auto at = codes_.find(name);
    return at == codes_.end() ? nullptr : at->second.lock();
  }
  void add(const std::string& name, const std::shared_ptr<const LoadedCode>& code) {
    std::lock_guard lock(guarding_);
    if (codes_.size() >= crowded_) {
      std::erase_if(codes_, [](auto& c) { return c.second.expired(); });
      crowded_ = std::max(fewest, 2 * codes_.size());
    }
    codes_[name] = code;
  }

 private:
  static constexpr size_t fewest = 64;
  size_t crowded_ = fewest;
  std::mutex guarding_;
  std::map<std::string, std::weak_ptr<const LoadedCode>> codes_;
};
Known& known() {
  static Known& one = *new Known;
  return one;
}

/// The plan's symbol, from all that decides about its code.
std::string name_plan(loopir::Program& program, KernelPlan& plan, const std::string& options) {
  std::string key = key_of(program, plan, options);
  plan.symbol = "k_" + digest(key);
  return key;
}

// Members of one symbol become neighbours.
std::string name_members(loopir::Program& program, CompiledKernel& group,
                         const std::string& options) {
  for (CompiledKernel* m : group.members)
    for (KernelPlan& plan : m->plans) name_plan(program, plan, options);
  std::ranges::stable_sort(group.members, {},
                           [](const CompiledKernel* m) { return m->plans[0].symbol; });
  std::string all;
  for (size_t v = 0; v < group.versions(); ++v) {
    std::string symbols = "group";
    for (const CompiledKernel* m : group.members) symbols += " " + m->plan(v).symbol;
    group.symbols.push_back("g_" + digest(symbols));
    all += symbols + "\n";
  }
  return all;
}

/// The versions' symbols, and the name of the image.
std::string name_versions(loopir::Program& program, CompiledKernel& kernel,
                          const std::string& options) {
  if (kernel.is_group()) return "cuda-" + digest(name_members(program, kernel, options));
  std::string all;
  for (KernelPlan& plan : kernel.plans) {
    all += name_plan(program, plan, options) + "\n";
    kernel.symbols.push_back(plan.symbol);
  }
  return "cuda-" + digest(all);
}

std::optional<std::string> saved_image(const SavedImages* saved, const std::string& name) {
  if (!saved) return std::nullopt;
  auto at = saved->find(name);
  return at == saved->end() ? std::nullopt : std::optional(at->second);
}

IrModule emitted(loopir::Program& program, const CompiledKernel& kernel, Numerics numerics,
                 std::string_view arch) {
  IrModule out;
  for (size_t v = 0; v < kernel.versions(); ++v) {
    auto target = target_of(arch);
    if (!kernel.is_group()) {
      emit_kernel(*out.module, program, kernel.plan(v), *target, numerics, kernel.may_alias);
      continue;
    }
    std::vector<const KernelPlan*> plans;
    for (const CompiledKernel* m : kernel.members) plans.push_back(&m->plan(v));
    emit_group(*out.module, program, plans, kernel.symbols[v], *target, numerics);
  }
  return out;
}

/// Code is loaded on one device.
std::string on_device(const Device& device, const std::string& name) {
  return text("{} {}", name, device.index);
}

/// Machine code, or what the device takes in its place.
std::string assembled(const Device& device, std::string image) {
  if (is_simt(device.arch)) return image;
  return tenon::plugin::collect([&](const tn_sink* sink) {
    return device.api->assemble(device.index, tenon::plugin::str(image), sink);
  });
}

/// A kernel whose code is found nowhere.
struct Unmade {
  CompiledKernel* kernel;
  std::string name, code = {}, problem = {};
};

/// The code of kernels, made by all threads of the host. The program is read by one at a time, which
/// takes little of the time.
void make(loopir::Program& program, std::span<Unmade> all, const Device& device,
          Numerics numerics) {
  std::mutex emitting;
  auto make_one = [&](Unmade& one) {
    CompiledKernel& kernel = *one.kernel;
    try {
      kernel.ptx = image_of(
          [&](std::string_view arch) {
            std::lock_guard lock(emitting);
            return emitted(program, kernel, numerics, arch);
          },
          device.arch);
    } catch (const error& why) {
      one.problem = why.what();
      return;
    }
    one.code = assembled(device, kernel.ptx);
    if (is_simt(device.arch)) kernel.ptx.clear();
  };
  loopir::run_long_chunks(static_cast<int64_t>(all.size()),
                          [&](int64_t i) { make_one(all[static_cast<size_t>(i)]); });
  for (const Unmade& one : all)
    if (!one.problem.empty())
      throw KernelFailure{
          one.kernel->name, one.problem,
          one.kernel->is_group() ? std::set<uint32_t>{} : one.kernel->plans[0].nest.kernel.nodes};
}

// The message of a check has the kernel's name, which names the ops.
void add_checks(const Device& device, CompiledKernel& kernel) {
  if (kernel.is_group() || !kernel.plans[0].has_checks) return;
  std::string position = "index {} is out of range: a position read by kernel " + kernel.name +
                         " is not within the tensor that it indexes; check the indices";
  std::string divisor = "kernel " + kernel.name +
                        ": an integer is divided by zero; expected no 0 in the divisor, mask it "
                        "out or divide floating numbers";
  tenon::plugin::check(device.api->add_check(tenon::plugin::str(position), &kernel.position_check));
  tenon::plugin::check(device.api->add_check(tenon::plugin::str(divisor), &kernel.divisor_check));
}

void find_functions(const Device& device, CompiledKernel& kernel) {
  for (const std::string& symbol : kernel.symbols)
    kernel.functions.push_back(kernel.code->kernel(symbol));
  add_checks(device, kernel);
}

}  // namespace

std::string text_of(const Device& device, Numerics numerics, bool may_alias) {
  return text("{} driver {} {} numerics {}{} alias {}", device.arch, device.facts.driver_version,
              fingerprint(), numerics.contracts, numerics.rounds_narrow, may_alias);
}

std::shared_ptr<const LoadedCode> code_of(const CodeStore& store, const Device& device,
                                          const std::string& name,
                                          const std::function<std::string()>& make_image,
                                          CodeStatistics& statistics, std::string& made) {
  std::shared_ptr<const LoadedCode> out = known().find(on_device(device, name));
  if (out) {
    ++statistics.from_process;
  } else if (auto saved = saved_image(store.saved, name)) {
    // Not told to the process: others would rely on what this file says.
    ++statistics.from_disk;
    return std::make_shared<const LoadedCode>(device, *saved);
  } else if (auto image = from_disk(store.ctx, name)) {
    out = std::make_shared<const LoadedCode>(device, std::move(*image));
    ++statistics.from_disk;
  } else {
    made = make_image();
    std::string code = assembled(device, made);
    if (is_simt(device.arch)) made.clear();
    out = std::make_shared<const LoadedCode>(device, code);
    to_disk(store.ctx, name, code);
  }
  known().add(on_device(device, name), out);
  statistics.bytes += static_cast<int64_t>(out->image().size());
  return out;
}

void make_code(tn_ctx* ctx, loopir::Program& program, std::span<CompiledKernel* const> kernels,
               const Device& device, Numerics numerics, CodeStatistics& statistics) {
  const std::string apart = text_of(device, numerics), aliased = text_of(device, numerics, true);
  std::map<std::string, std::shared_ptr<const LoadedCode>> codes;
  std::vector<std::string> names;
  std::vector<Unmade> unmade;
  for (CompiledKernel* kernel : kernels) {
    const std::string& name =
        names.emplace_back(name_versions(program, *kernel, kernel->may_alias ? aliased : apart));
    auto [code, is_new] = codes.try_emplace(name);
    if (!is_new) {
      ++statistics.from_process;
    } else if ((code->second = known().find(on_device(device, name)))) {
      ++statistics.from_process;
    } else if (auto image = from_disk(ctx, name)) {
      code->second = std::make_shared<const LoadedCode>(device, std::move(*image));
      ++statistics.from_disk;
    } else {
      unmade.push_back({kernel, name});
    }
  }
  statistics.distinct += static_cast<uint32_t>(codes.size());
  make(program, unmade, device, numerics);
  for (Unmade& one : unmade) {
    to_disk(ctx, one.name, one.code);
    codes[one.name] = std::make_shared<const LoadedCode>(device, std::move(one.code));
  }
  for (const auto& [name, code] : codes) known().add(on_device(device, name), code);
  for (size_t i = 0; i < kernels.size(); ++i) {
    kernels[i]->code = codes.at(names[i]);
    statistics.bytes += static_cast<int64_t>(kernels[i]->code->image().size());
    kernels[i]->code_name = names[i];
    find_functions(device, *kernels[i]);
  }
}

uint32_t spilled_bytes(const Device& device, const CompiledKernel& kernel) {
  if (!TN_HAS(device.api, kernel_facts) || !device.api->kernel_facts) return 0;
  uint32_t out = 0;
  for (tn_cuda_kernel* function : kernel.functions) {
    tn_cuda_kernel_facts facts{};
    facts.struct_size = sizeof facts;
    tenon::plugin::check(device.api->kernel_facts(function, &facts));
    out = std::max(out, facts.local_bytes);
  }
  return out;
}

void take_code(const SavedImages& saved, const Device& device,
               std::span<CompiledKernel* const> kernels) {
  std::map<std::string, std::shared_ptr<const LoadedCode>> codes;
  for (CompiledKernel* kernel : kernels) try {
      std::shared_ptr<const LoadedCode>& code = codes[kernel->code_name];
      if (!code) code = known().find(on_device(device, kernel->code_name));
      if (!code) {
        std::optional<std::string> image = saved_image(&saved, kernel->code_name);
        if (!image) throw error(TN_DATA_LOSS, "it is not there");
        code = std::make_shared<const LoadedCode>(device, *std::move(image));
      }
      kernel->code = code;
      find_functions(device, *kernel);
    } catch (const error& why) {
      if (why.code == TN_UNAVAILABLE) throw;  // the device is lost
      throw error(TN_DATA_LOSS,
                  text("saved code: that of kernel {} cannot be loaded: {}; compile it again",
                       kernel->name, why.what()));
    }
}

}  // namespace inductor_cuda
