// Code of the double: whose bytes somebody else understands.
#include "code.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace fake_cuda {

size_t image_bytes(const void* image) {
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return std::strlen(static_cast<const char*>(image));
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  size_t end = head.e_shoff + size_t(head.e_shnum) * head.e_shentsize;
  for (size_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, static_cast<const char*>(image) + head.e_shoff + i * head.e_shentsize,
                sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

ModuleState* Code::load(const void* image, const char** why_not) {
  *why_not = "nobody gave the double code";
  void* handle = code_ ? code_->load(code_->self, image, image_bytes(image), why_not) : nullptr;
  if (!handle) return nullptr;
  auto module = std::make_shared<ModuleState>(code_, handle);
  ModuleState* key = module.get();
  modules_.emplace(key, std::move(module));
  return key;
}

bool Code::unload(ModuleState* module) {
  std::erase_if(functions_, [&](const auto& f) { return f.second->module.get() == module; });
  return modules_.erase(module) != 0;
}

FunctionState* Code::find(ModuleState* module, const char* name) {
  auto known = modules_.find(module);
  if (known == modules_.end()) return nullptr;
  auto function = std::make_unique<FunctionState>(FunctionState{known->second, {}});
  const FakeCudaCode* code = module->code;
  if (!code->find(code->self, module->handle, name, &function->kernel)) return nullptr;
  FunctionState* key = function.get();
  functions_.emplace(key, std::move(function));
  return key;
}

Result Launch::run(bool (*may_touch)(const void*, size_t)) const {
  std::vector<void*> args;
  for (const std::vector<char>& value : values) args.push_back(const_cast<char*>(value.data()));
  FakeCudaLaunch launch{{grid[0], grid[1], grid[2]},
                        {block[0], block[1], block[2]},
                        shared_bytes,
                        args.data(),
                        may_touch};
  return module->code->run(module->code->self, &kernel, &launch);
}

}  // namespace fake_cuda
