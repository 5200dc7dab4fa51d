// Looking up and making code.
//
// A kernel's symbol is made of the digest of its key, so an object says itself what it holds, and
// equal kernels of one graph are one function. What is missing in the process is looked up on disk
// as one entry for all of them: the objects with their lengths, behind a digest. An entry that is
// damaged, or lacks a symbol, is a miss.
#include "kernel_cache.h"

#include <inductor_runtime/workers.h>
#include <loopir/making/digest.h>

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace inductor {

using loopir::digest;
using tenon::plugin::error;

namespace {

/// Kernels that artifacts of this process hold.
class Known {
 public:
  KernelCode find(const std::string& key) {
    std::lock_guard lock(guarding_);
    auto at = kernels_.find(key);
    if (at == kernels_.end()) return {};
    KernelCode out{at->second.run, at->second.code.lock()};
    if (out.code) return out;
    kernels_.erase(at);
    return {};
  }
  void add(const std::string& key, const KernelCode& code) {
    std::lock_guard lock(guarding_);
    if (kernels_.size() >= crowded_) {
      std::erase_if(kernels_, [](auto& k) { return k.second.code.expired(); });
      crowded_ = std::max(fewest, 2 * kernels_.size());
    }
    kernels_[key] = {code.run, code.code};
  }

 private:
  static constexpr size_t fewest = 64;
  size_t crowded_ = fewest;  // when to look for code that is gone
  struct Entry {
    KernelFunction run;
    std::weak_ptr<const LinkedCode> code;
  };
  std::mutex guarding_;
  std::map<std::string, Entry> kernels_;
};
Known& known() {
  static Known& one = *new Known;
  return one;
}

// ---- entries on disk

std::string packed(std::span<const std::string> objects) {
  std::string out;
  auto put = [&](uint64_t n) { out.append(reinterpret_cast<const char*>(&n), sizeof n); };
  put(objects.size());
  for (const std::string& o : objects) put(o.size());
  for (const std::string& o : objects) out += o;
  return digest(out) + out;
}

/// The objects, or nothing where the bytes are not what packed() made.
std::vector<std::string> unpacked(std::string_view bytes) {
  constexpr size_t digest_size = 32;
  if (bytes.size() < digest_size + 8) return {};
  std::string_view body = bytes.substr(digest_size);
  if (digest(body) != bytes.substr(0, digest_size)) return {};
  auto number = [&](size_t i) {
    uint64_t n;
    std::memcpy(&n, body.data() + 8 * i, 8);
    return n;
  };
  uint64_t n = number(0), at = 8 * (n + 1);
  if (n > 1024 || at > body.size()) return {};
  std::vector<std::string> out;
  for (uint64_t i = 1; i <= n; ++i) {
    if (number(i) > body.size() - at) return {};
    out.emplace_back(body.substr(at, number(i)));
    at += number(i);
  }
  return out;
}

// ---- making

/// About equal shares of the work, each a module of its own.
std::vector<std::vector<KernelRequest*>> shares_of(std::vector<KernelRequest*> missing,
                                                   int64_t threads) {
  auto workers = static_cast<size_t>(std::max<int64_t>(1, Workers{threads}.threads()));
  std::vector<std::vector<KernelRequest*>> out(std::min(missing.size(), workers));
  std::vector<size_t> size(out.size(), 0);
  std::stable_sort(missing.begin(), missing.end(), [](KernelRequest* a, KernelRequest* b) {
    return a->key.size() > b->key.size();  // the key is as long as the kernel is large
  });
  for (KernelRequest* r : missing) {
    size_t least = static_cast<size_t>(std::min_element(size.begin(), size.end()) - size.begin());
    out[least].push_back(r);
    size[least] += r->key.size() + 200;
  }
  return out;
}

void emit(llvm::Module& module, loopir::Program& program, const KernelRequest& r,
          const CodeOptions& options) try {
  emit_kernel(module, program, *r.nest, *r.interface, options);
  require_well_formed(module, r.interface->symbol);
} catch (const error& why) {
  throw KernelFailure{r.nest->kernel.name, why.what(), r.nest->kernel.nodes};
}

IrModule module_of(loopir::Program& program, std::span<KernelRequest* const> kernels,
                   const CodeOptions& options) {
  IrModule out;
  for (const KernelRequest* r : kernels) emit(*out.module, program, *r, options);
  return out;
}

// Kernels that have no code together are compiled alone, to find the one that is to blame.
void compile_alone(loopir::Program& program, std::span<KernelRequest* const> kernels,
                   const CodeOptions& options, std::vector<std::string>& objects) {
  for (KernelRequest* const& r : kernels) {
    IrModule module = module_of(program, {&r, 1}, options);
    try {
      objects.push_back(compile_to_object(std::move(module), options.effort));
    } catch (const error& why) {
      throw KernelFailure{r->nest->kernel.name, why.what(), r->nest->kernel.nodes};
    }
  }
}

std::vector<std::string> compile_all(loopir::Program& program,
                                     const std::vector<KernelRequest*>& missing,
                                     const CodeOptions& options, int64_t threads) {
  auto shares = shares_of(missing, threads);
  std::vector<IrModule> modules;  // expressions are shared: one thread emits
  for (const auto& share : shares) modules.push_back(module_of(program, share, options));
  std::vector<std::string> made(shares.size()), out;
  tenon::plugin::parallel_chunks(static_cast<int64_t>(shares.size()), [&](int64_t i, int32_t) {
    try {
      made[static_cast<size_t>(i)] =
          compile_to_object(std::move(modules[static_cast<size_t>(i)]), options.effort);
    } catch (const error&) {  // an object is never empty
    }
  });
  for (size_t i = 0; i < shares.size(); ++i)
    if (made[i].empty())
      compile_alone(program, shares[i], options, out);
    else
      out.push_back(std::move(made[i]));
  return out;
}

void link(std::vector<std::string> objects, const std::vector<KernelRequest*>& missing,
          std::map<std::string, KernelCode>& out) {
  auto code = std::make_shared<const LinkedCode>(std::move(objects));
  for (KernelRequest* r : missing) {
    KernelCode made{code->find(r->interface->symbol), code};
    known().add(r->key, made);
    out[r->key] = made;
  }
}

/// Whether the cache had all of them.
bool load(tn_ctx* ctx, const std::string& name, const std::vector<KernelRequest*>& missing,
          std::map<std::string, KernelCode>& out, CacheStatistics& statistics) try {
  auto bytes = tenon::plugin::cache_get(ctx, name);
  if (!bytes) return false;
  std::vector<std::string> objects = unpacked(*bytes);
  if (objects.empty()) return false;
  link(std::move(objects), missing, out);
  statistics.from_disk = true;
  statistics.object_bytes = static_cast<int64_t>(bytes->size());
  return true;
} catch (const error&) {
  return false;  // another processor's, or damaged in a way that its digest does not show
}

}  // namespace

std::vector<KernelCode> code_for(tn_ctx* ctx, loopir::Program& program,
                                 std::span<KernelRequest> requests, const CodeOptions& options,
                                 int64_t threads, CacheStatistics& statistics) {
  std::map<std::string, KernelCode> have;
  std::vector<KernelRequest*> missing;
  for (KernelRequest& r : requests) {
    r.interface->symbol = "k_" + digest(r.key);
    if (have.contains(r.key)) continue;
    have[r.key] = known().find(r.key);
    if (have[r.key].run)
      ++statistics.from_process;
    else
      missing.push_back(&r);
  }
  statistics.distinct = static_cast<uint32_t>(have.size());
  if (!missing.empty()) {
    std::string names = fingerprint();
    for (KernelRequest* r : missing) names += r->interface->symbol;
    std::string name = "kernels-" + digest(names);
    if (!load(ctx, name, missing, have, statistics)) {
      std::vector<std::string> objects = compile_all(program, missing, options, threads);
      std::string bytes = packed(objects);
      statistics.object_bytes = static_cast<int64_t>(bytes.size());
      tenon::plugin::cache_put(ctx, name, bytes);
      link(std::move(objects), missing, have);
    }
  }
  std::vector<KernelCode> out;
  for (KernelRequest& r : requests) out.push_back(have.at(r.key));
  return out;
}

}  // namespace inductor
