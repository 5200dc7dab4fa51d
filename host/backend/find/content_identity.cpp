// Build IDs of files and of what is mapped. Files that were linked without one are read as a whole,
// once per process.
#include "backend/find/content_identity.h"

#include "backend/find/allow_list.h"
#include "core/error.h"
#include "graph/hash.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <map>
#include <mutex>

namespace tenon {

namespace {

constexpr const char* running_program = "/proc/self/exe";

std::string build_id_text(std::string_view id) { return "build " + to_hex(id); }

std::string digest_once(const std::string& path, const FileIdentity& file) {
  static std::mutex lock;  // guards the next one
  static auto& known = *new std::map<std::pair<std::string, FileIdentity>, std::string>;
  std::lock_guard guard(lock);
  std::string& digest = known[{path, file}];
  try {
    if (digest.empty()) digest = digest_of(path);
  } catch (const UserError&) {
    // What cannot be read is told apart by what is known of it.
    return message("{} bytes of {}", file.size, file.mtime_ns);
  }
  return digest;
}

// The build ID among the notes of a mapped segment; the linker has padded them to 4 bytes.
std::string_view build_id_in(const char* at, size_t bytes) {
  auto up = [](size_t n) { return (n + 3) & ~size_t{3}; };
  const char* end = at + bytes;
  while (static_cast<size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const char* name = at + sizeof note;
    size_t size = sizeof note + up(note.n_namesz) + up(note.n_descsz);
    if (size > static_cast<size_t>(end - at)) break;
    bool is_id =
        note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0;
    if (is_id) return {name + up(note.n_namesz), note.n_descsz};
    at += size;
  }
  return {};
}

struct Search {
  uintptr_t address;  // 0: the program itself, which comes first
  std::string id, path;
};

int look_at_object(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool contains = search.address == 0;
  std::string_view id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && begin <= search.address &&
        search.address - begin < segment.p_memsz)
      contains = true;
    if (segment.p_type == PT_NOTE && id.empty())
      id = build_id_in(reinterpret_cast<const char*>(begin), segment.p_memsz);
  }
  if (!contains) return 0;
  search.id = id;
  search.path = object->dlpi_name;
  return 1;
}

std::string identity_of_mapped(uintptr_t address) {
  Search search{address, {}, {}};
  ::dl_iterate_phdr(look_at_object, &search);
  if (!search.id.empty()) return build_id_text(search.id);
  return digest_once(search.path.empty() ? running_program : search.path, {});
}

}  // namespace

std::string content_identity(const std::string& path, const ElfInfo& elf) {
  return elf.build_id.empty() ? digest_once(path, elf.file) : build_id_text(elf.build_id);
}

std::string content_identity_of_code(const void* address) {
  return identity_of_mapped(reinterpret_cast<uintptr_t>(address));
}

std::string content_identity_of_program() { return identity_of_mapped(0); }

}  // namespace tenon
