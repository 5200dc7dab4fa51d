// Looking up and making code.
//
// A kernel's versions are one image. Its name is the digest of all that decides about it, so that
// images are found in the process, then in the host's cache, where they lie as machine code behind
// a digest; one that is damaged is a miss.
#include "kernel_code.h"

#include "emit/kernel_emitter.h"
#include "image.h"

#include <loopir/making/digest.h>

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

/// The versions' symbols, and the name of the image.
std::string name_versions(loopir::Program& program, CompiledKernel& kernel,
                          const std::string& options) {
  std::string all;
  for (KernelPlan& plan : kernel.plans) {
    std::string key = key_of(program, plan, options);
    plan.symbol = "k_" + digest(key);
    all += key + "\n";
  }
  return "cuda-" + digest(all);
}

std::optional<std::string> from_disk(tn_ctx* ctx, const std::string& name) {
  if (!ctx) return std::nullopt;
  constexpr size_t digest_size = 32;
  auto bytes = tenon::plugin::cache_get(ctx, name);
  if (!bytes || bytes->size() < digest_size) return std::nullopt;
  std::string body = bytes->substr(digest_size);
  if (digest(body) != std::string_view(*bytes).substr(0, digest_size)) return std::nullopt;
  return body;
}

IrModule emitted(loopir::Program& program, const CompiledKernel& kernel, const CodeOptions& options,
                 std::string_view arch) {
  IrModule out;
  for (const KernelPlan& plan : kernel.plans) {
    auto target = target_of(arch);
    emit_kernel(*out.module, program, plan, *target, options.numerics, options.may_alias);
  }
  return out;
}

/// Machine code, or what the device takes in its place.
std::string assembled(const Device& device, std::string image) {
  if (is_simt(device.arch)) return image;
  return tenon::plugin::collect([&](const tn_sink* sink) {
    return device.api->assemble(device.index, tenon::plugin::str(image), sink);
  });
}

/// Throws KernelFailure.
std::string kernel_image(loopir::Program& program, const CompiledKernel& kernel,
                         const Device& device, const CodeOptions& options) try {
  return image_of([&](std::string_view arch) { return emitted(program, kernel, options, arch); },
                  device.arch);
} catch (const error& why) {
  throw KernelFailure{kernel.name, why.what(), kernel.plans[0].nest.kernel.nodes};
}

// The message of a check has the kernel's name, which names the ops.
void add_checks(const Device& device, CompiledKernel& kernel) {
  if (!kernel.plans[0].has_checks) return;
  std::string position = "index {} is out of range: a position read by kernel " + kernel.name +
                         " is not within the tensor that it indexes; check the indices";
  std::string divisor = "kernel " + kernel.name +
                        ": an integer is divided by zero; expected no 0 in the divisor, mask it "
                        "out or divide floating numbers";
  tenon::plugin::check(device.api->add_check(tenon::plugin::str(position), &kernel.position_check));
  tenon::plugin::check(device.api->add_check(tenon::plugin::str(divisor), &kernel.divisor_check));
}

}  // namespace

std::string text_of(const Device& device, const CodeOptions& options) {
  return text("{} driver {} {} numerics {}{} alias {}", device.arch, device.facts.driver_version,
              fingerprint(), options.numerics.contracts, options.numerics.rounds_narrow,
              options.may_alias);
}

std::shared_ptr<const LoadedCode> code_of(tn_ctx* ctx, const Device& device,
                                          const std::string& name,
                                          const std::function<std::string()>& make_image,
                                          CodeStatistics& statistics, std::string& made) {
  std::string of_device = text("{} {}", name, device.index);
  std::shared_ptr<const LoadedCode> out = known().find(of_device);
  if (out) {
    ++statistics.from_process;
  } else if (auto image = from_disk(ctx, name)) {
    out = std::make_shared<const LoadedCode>(device, std::move(*image));
    ++statistics.from_disk;
  } else {
    made = make_image();
    std::string code = assembled(device, made);
    if (is_simt(device.arch)) made.clear();
    out = std::make_shared<const LoadedCode>(device, code);
    if (ctx) tenon::plugin::cache_put(ctx, name, digest(code) + code);
  }
  known().add(of_device, out);
  statistics.bytes += static_cast<int64_t>(out->image().size());
  return out;
}

void make_code(tn_ctx* ctx, loopir::Program& program, std::span<CompiledKernel* const> kernels,
               const Device& device, const CodeOptions& options, CodeStatistics& statistics) {
  std::string common = text_of(device, options);
  std::set<std::string> names;
  for (CompiledKernel* kernel : kernels) {
    std::string name = name_versions(program, *kernel, common);
    statistics.distinct += names.insert(name).second;
    kernel->code = code_of(
        ctx, device, name, [&] { return kernel_image(program, *kernel, device, options); },
        statistics, kernel->ptx);
    for (const KernelPlan& plan : kernel->plans)
      kernel->functions.push_back(kernel->code->kernel(plan.symbol));
    add_checks(device, *kernel);
  }
}

}  // namespace inductor_cuda
