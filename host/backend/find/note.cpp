// The manifest of a plugin lies in an ELF note; this reads it, and a few facts for diagnoses.
//
// Problem. Listing plugins must be fast (50 files in 2 ms) and must run nothing of them: no dlopen,
// no constructors. The file is not trusted: it may be half copied, of another machine, or hostile.
//
// Method. The ELF header and the program headers are read first. PT_NOTE segments are walked for
// the note "Tenon" of type TN_NOTE_TYPE (program headers, because sections may be stripped).
// PT_DYNAMIC gives the needed libraries, the run path, and the hash table in which the entry symbol
// is looked up as the dynamic linker would (GNU hash, else the System V one). PT_GNU_STACK tells
// whether the stack is to be executable.
//
// The file is read with pread, not mapped: a mapped file that somebody truncates meanwhile kills
// the process with SIGBUS. Each read is bounded by the file size; counts have limits, so that the
// cost stays some twenty small reads. The first block serves most of them.
//
// Source: System V ABI (ELF-64 object file format) and the GNU hash section as in binutils.
#include "backend/find/note.h"

#include "core/error.h"

#include <tenon/plugin.h>

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

namespace tenon {
namespace {

#if defined(__x86_64__)
constexpr uint16_t our_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t our_machine = EM_AARCH64;
#else
#error "plugins: machine not known"
#endif

constexpr size_t max_manifest = 64 * 1024;
constexpr size_t max_program_headers = 256;
constexpr size_t max_notes = 1024;
constexpr size_t max_dynamic = 1024;
constexpr size_t max_chain = 4096;
constexpr size_t max_name = 4096;
constexpr uint32_t max_symbols = 1 << 18;
constexpr std::string_view entry_name = "tenon_plugin_entry_v1";
constexpr std::string_view any_entry_name = "tenon_plugin_entry_v";

/// Stops the reading; becomes the diagnosis.
struct Stop {
  PluginFault fault;
  std::string reason, hint;
};

[[noreturn]] void truncated(uint64_t offset, uint64_t n, uint64_t size) {
  throw Stop{PluginFault::unreadable,
             message("truncated: {} bytes at offset {} lie beyond its {} bytes", n, offset, size),
             "copy the file again"};
}

/// A file or bytes in memory, read in bounded pieces.
class Source {
 public:
  explicit Source(std::span<const std::byte> bytes) : bytes_(bytes), size_(bytes.size()) {}
  Source(int fd, uint64_t size) : fd_(fd), size_(size) {
    ssize_t n = ::pread(fd_, first_.data(), first_.size(), 0);
    bytes_ = {first_.data(), n > 0 ? std::min<uint64_t>(size, n) : 0};
  }
  uint64_t size() const { return size_; }

  void read(uint64_t offset, void* to, uint64_t n) const {
    if (offset > size_ || n > size_ - offset) truncated(offset, n, size_);
    if (offset + n <= bytes_.size()) {
      if (n) std::memcpy(to, bytes_.data() + offset, n);
    } else if (fd_ < 0 ||
               ::pread(fd_, to, n, static_cast<off_t>(offset)) != static_cast<ssize_t>(n)) {
      truncated(offset, n, size_);  // it shrank since it was opened
    }
  }
  template <class T>
  T get(uint64_t offset) const {
    T value;
    read(offset, &value, sizeof value);
    return value;
  }
  /// A terminated string that lies in [offset, end).
  std::string text(uint64_t offset, uint64_t end) const {
    std::string out;
    std::array<char, 128> block;
    end = std::min(end, size_);
    while (offset < end && out.size() < max_name) {
      size_t n = std::min<uint64_t>(block.size(), end - offset);
      read(offset, block.data(), n);
      size_t length = ::strnlen(block.data(), n);
      out.append(block.data(), length);
      if (length < n) return out;
      offset += n;
    }
    throw Stop{PluginFault::unreadable, "a name in its string table does not end", ""};
  }

 private:
  int fd_ = -1;
  std::array<std::byte, 4096> first_;
  std::span<const std::byte> bytes_;  ///< what is at hand from offset 0
  uint64_t size_;
};

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "risc-v";
    case EM_PPC64:
      return "ppc64";
    default:
      return message("machine {}", machine);
  }
}

class Reader {
 public:
  explicit Reader(const Source& source) : source_(source) {}

  void read(ElfInfo& info) {
    check_header();
    read_program_headers();
    info.manifest = manifest();
    info.build_id = std::move(build_id_);
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_GNU_STACK) info.exec_stack = segment.p_flags & PF_X;
      if (segment.p_type == PT_DYNAMIC) read_dynamic(segment, info);
    }
  }

  /// After read(): what it exports besides the entries.
  ExtraExports extra_exports() const {
    ExtraExports out;
    uint32_t count = std::min(symbol_count(), max_symbols);
    for (uint32_t index = 1; index < count; ++index) {
      Elf64_Sym symbol = symbol_at(index);
      if (!is_exported(symbol)) continue;
      std::string name = string_at(symbol.st_name);
      if (name.starts_with(any_entry_name) || is_from_linker(name)) continue;
      if (ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE) out.unique.push_back(name);
      out.names.push_back(std::move(name));
    }
    return out;
  }

 private:
  /// Linkers add these to what has no version script.
  static bool is_from_linker(std::string_view name) {
    constexpr std::string_view known[] = {"_init", "_fini", "__bss_start", "_edata", "_end"};
    return std::find(std::begin(known), std::end(known), name) != std::end(known);
  }

  void check_header() {
    std::array<unsigned char, EI_NIDENT> ident{};
    uint64_t size = source_.size();
    source_.read(0, ident.data(), std::min<uint64_t>(size, ident.size()));
    if (size < sizeof ident || std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0)
      throw Stop{PluginFault::unreadable,
                 message("expected an ELF shared object, found {} bytes of something else", size),
                 "name the .so file that tenon_add_plugin built"};
    if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB)
      throw Stop{PluginFault::wrong_machine,
                 message("was built for {}-bit {}-endian {}, this host is 64-bit little-endian {}",
                         ident[EI_CLASS] == ELFCLASS32 ? 32 : 64,
                         ident[EI_DATA] == ELFDATA2MSB ? "big" : "little",
                         machine_name(foreign_machine(ident[EI_DATA])), machine_name(our_machine)),
                 message("build it for {}", machine_name(our_machine))};
    header_ = source_.get<Elf64_Ehdr>(0);
    if (header_.e_machine != our_machine)
      throw Stop{PluginFault::wrong_machine,
                 message("was built for {}, this host is {}", machine_name(header_.e_machine),
                         machine_name(our_machine)),
                 message("build it for {}", machine_name(our_machine))};
    if (header_.e_type != ET_DYN)
      throw Stop{PluginFault::wrong_machine,
                 message("expected a shared object for {} (ELF type {}), found ELF type {}",
                         machine_name(our_machine), ET_DYN, header_.e_type),
                 "link it with -shared"};
  }

  /// e_machine stands at the same place in all classes.
  uint16_t foreign_machine(unsigned char order) const {
    auto machine = source_.get<uint16_t>(offsetof(Elf64_Ehdr, e_machine));
    return order == ELFDATA2MSB ? static_cast<uint16_t>(machine << 8 | machine >> 8) : machine;
  }

  void read_program_headers() {
    size_t n = header_.e_phnum;
    if (n == 0 || n > max_program_headers || header_.e_phentsize != sizeof(Elf64_Phdr))
      throw Stop{PluginFault::unreadable,
                 message("expected 1 to {} program headers of {} bytes, found {} of {} bytes",
                         max_program_headers, sizeof(Elf64_Phdr), n, header_.e_phentsize),
                 "build it again"};
    segments_.resize(n);
    source_.read(header_.e_phoff, segments_.data(), n * sizeof(Elf64_Phdr));
    // The loader maps what lies beyond the end all the same, and the first look at it kills.
    for (const Elf64_Phdr& s : segments_)
      if (s.p_type == PT_LOAD &&
          (s.p_offset > source_.size() || s.p_filesz > source_.size() - s.p_offset))
        truncated(s.p_offset, s.p_filesz, source_.size());
  }

  /// The text of the one Tenon note.
  std::string manifest() {
    std::optional<std::string> found;
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_NOTE) scan_notes(segment, found);
    if (!found)
      throw Stop{PluginFault::no_note, "not a Tenon plugin: it has no Tenon note",
                 "give tenon_add_plugin a MANIFEST, or put TN_MANIFEST(...) into a source file"};
    return *std::move(found);
  }

  // Linkers put notes of alignment 4 and 8 into one segment, and sanitizers leave room between
  // them: whatever the segment says, a note is padded to 4 bytes and zeros may follow.
  void scan_notes(const Elf64_Phdr& segment, std::optional<std::string>& found) {
    auto up = [](uint64_t n) { return (n + 3) & ~uint64_t{3}; };
    uint64_t at = segment.p_offset;
    if (at > source_.size() || segment.p_filesz > source_.size() - at)
      truncated(at, segment.p_filesz, source_.size());
    uint64_t end = at + segment.p_filesz;
    for (size_t n = 0; end - at >= sizeof(Elf64_Nhdr); ++n) {
      if (n == max_notes) throw Stop{PluginFault::unreadable, "has too many notes", ""};
      if (source_.get<uint32_t>(at) == 0) {
        at += 4;
        continue;
      }
      auto note = source_.get<Elf64_Nhdr>(at);
      uint64_t name_at = at + sizeof note;
      uint64_t text_at = at + up(sizeof note + uint64_t{note.n_namesz});
      if (text_at > end || note.n_descsz > end - text_at)
        throw Stop{PluginFault::unreadable, message("a note at offset {} leaves its segment", at),
                   ""};
      if (is_ours(note, name_at)) take(note, text_at, found);
      if (is_build_id(note, name_at)) take_build_id(note, text_at);
      at = std::min(end, text_at + up(note.n_descsz));
    }
  }

  bool is_ours(const Elf64_Nhdr& note, uint64_t name_at) const {
    std::array<char, 6> name{};
    if (note.n_type != TN_NOTE_TYPE || note.n_namesz != name.size()) return false;
    source_.read(name_at, name.data(), name.size());
    return std::memcmp(name.data(), "Tenon", name.size()) == 0;
  }

  bool is_build_id(const Elf64_Nhdr& note, uint64_t name_at) const {
    std::array<char, 4> name{};
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != name.size()) return false;
    source_.read(name_at, name.data(), name.size());
    return std::memcmp(name.data(), "GNU", name.size()) == 0;
  }

  void take_build_id(const Elf64_Nhdr& note, uint64_t at) {
    build_id_.resize(std::min<uint32_t>(note.n_descsz, 64));
    source_.read(at, build_id_.data(), build_id_.size());
  }

  void take(const Elf64_Nhdr& note, uint64_t at, std::optional<std::string>& found) {
    if (found)
      throw Stop{PluginFault::bad_note,
                 message("expected one Tenon note, found two, of {} and {} bytes",
                         first_note_bytes_, note.n_descsz),
                 "use either MANIFEST of tenon_add_plugin or TN_MANIFEST, once"};
    if (note.n_descsz > max_manifest)
      throw Stop{PluginFault::bad_note,
                 message("its manifest has {} bytes, the limit is {}", note.n_descsz, max_manifest),
                 "shorten descriptions and options, or make two plugins of it"};
    first_note_bytes_ = note.n_descsz;
    found.emplace(note.n_descsz, '\0');
    source_.read(at, found->data(), found->size());
    while (!found->empty() && found->back() == '\0') found->pop_back();
  }

  /// The file offset of a virtual address; the end of its segment in the file goes to `end`.
  uint64_t offset_of(uint64_t address, uint64_t& end) const {
    for (const Elf64_Phdr& s : segments_) {
      if (s.p_type != PT_LOAD || address < s.p_vaddr || address - s.p_vaddr >= s.p_filesz) continue;
      if (s.p_offset > source_.size() || s.p_filesz > source_.size() - s.p_offset)
        truncated(s.p_offset, s.p_filesz, source_.size());
      end = s.p_offset + s.p_filesz;
      return s.p_offset + (address - s.p_vaddr);
    }
    throw Stop{PluginFault::unreadable,
               message("its dynamic section names address {}, which is not in the file", address),
               ""};
  }

  void read_dynamic(const Elf64_Phdr& segment, ElfInfo& info) {
    std::vector<Elf64_Dyn> entries(
        std::min<uint64_t>(segment.p_filesz / sizeof(Elf64_Dyn), max_dynamic));
    source_.read(segment.p_offset, entries.data(), entries.size() * sizeof(Elf64_Dyn));
    auto end = std::find_if(entries.begin(), entries.end(),
                            [](const Elf64_Dyn& d) { return d.d_tag == DT_NULL; });
    entries.erase(end, entries.end());

    std::optional<uint64_t> strings, symbols;
    for (const Elf64_Dyn& d : entries) {
      if (d.d_tag == DT_STRTAB) strings = d.d_un.d_ptr;
      if (d.d_tag == DT_SYMTAB) symbols = d.d_un.d_ptr;
      if (d.d_tag == DT_GNU_HASH) gnu_hash_ = d.d_un.d_ptr;
      if (d.d_tag == DT_HASH) sysv_hash_ = d.d_un.d_ptr;
      if (d.d_tag == DT_TEXTREL) info.text_relocations = true;
      if (d.d_tag == DT_FLAGS && d.d_un.d_val & DF_TEXTREL) info.text_relocations = true;
    }
    if (!strings) return;
    strings_ = offset_of(*strings, strings_end_);
    for (const Elf64_Dyn& d : entries) {
      if (d.d_tag == DT_NEEDED) info.needed.push_back(string_at(d.d_un.d_val));
      if (d.d_tag == DT_RUNPATH || d.d_tag == DT_RPATH) info.runpath = string_at(d.d_un.d_val);
    }
    if (!symbols) return;
    symbols_ = offset_of(*symbols, symbols_end_);
    if (gnu_hash_)
      info.exports_entry = in_gnu_hash(*gnu_hash_);
    else if (sysv_hash_)
      info.exports_entry = in_sysv_hash(*sysv_hash_);
  }

  std::string string_at(uint64_t index) const {
    if (index >= strings_end_ - strings_)
      throw Stop{PluginFault::unreadable, message("string {} lies outside its table", index), ""};
    return source_.text(strings_ + index, strings_end_);
  }

  Elf64_Sym symbol_at(uint32_t index) const {
    return source_.get<Elf64_Sym>(symbols_ + uint64_t{index} * sizeof(Elf64_Sym));
  }
  static bool is_exported(const Elf64_Sym& symbol) {
    auto visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    return symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
  }
  bool is_entry(uint32_t index) const {
    Elf64_Sym symbol = symbol_at(index);
    return is_exported(symbol) && string_at(symbol.st_name) == entry_name;
  }

  struct GnuHash {
    uint32_t n_buckets, first_symbol;
    uint64_t buckets, chains;
    uint64_t link_of(uint32_t index) const { return chains + uint64_t{index - first_symbol} * 4; }
  };
  GnuHash gnu_table(uint64_t address) const {
    struct Header {
      uint32_t n_buckets, first_symbol, bloom_words, bloom_shift;
    };
    uint64_t end = 0, at = offset_of(address, end);
    auto header = source_.get<Header>(at);
    uint64_t buckets = at + sizeof header + uint64_t{header.bloom_words} * 8;
    return {header.n_buckets, header.first_symbol, buckets,
            buckets + uint64_t{header.n_buckets} * 4};
  }

  /// One more than the highest index that a hash table leads to.
  uint32_t symbol_count() const {
    if (!gnu_hash_) {
      uint64_t end = 0;
      return sysv_hash_ ? source_.get<uint32_t>(offset_of(*sysv_hash_, end) + 4) : 0;
    }
    GnuHash table = gnu_table(*gnu_hash_);
    uint32_t last = 0;
    for (uint32_t b = 0; b < std::min(table.n_buckets, max_symbols); ++b)
      last = std::max(last, source_.get<uint32_t>(table.buckets + uint64_t{b} * 4));
    if (last < table.first_symbol) return 0;
    while (last < max_symbols && !(source_.get<uint32_t>(table.link_of(last)) & 1)) ++last;
    return last + 1;
  }

  bool in_gnu_hash(uint64_t address) const {
    uint32_t hash = 5381;
    for (char c : entry_name) hash = hash * 33 + static_cast<unsigned char>(c);

    GnuHash table = gnu_table(address);
    if (table.n_buckets == 0) return false;
    uint32_t index = source_.get<uint32_t>(table.buckets + uint64_t{hash % table.n_buckets} * 4);
    if (index < table.first_symbol) return false;
    for (size_t step = 0; step < max_chain; ++step, ++index) {
      auto link = source_.get<uint32_t>(table.link_of(index));
      if ((link | 1) == (hash | 1) && is_entry(index)) return true;
      if (link & 1 || index == UINT32_MAX) return false;
    }
    return false;
  }

  bool in_sysv_hash(uint64_t address) const {
    uint32_t hash = 0;
    for (char c : entry_name) {
      hash = (hash << 4) + static_cast<unsigned char>(c);
      uint32_t high = hash & 0xF0000000u;
      hash = (hash ^ (high >> 24)) & ~high;
    }
    uint64_t end = 0;
    uint64_t at = offset_of(address, end);
    auto n_buckets = source_.get<uint32_t>(at);
    if (n_buckets == 0) return false;
    uint64_t buckets = at + 8, chains = buckets + uint64_t{n_buckets} * 4;
    auto index = source_.get<uint32_t>(buckets + uint64_t{hash % n_buckets} * 4);
    for (size_t step = 0; index != STN_UNDEF && step < max_chain; ++step) {
      if (is_entry(index)) return true;
      index = source_.get<uint32_t>(chains + uint64_t{index} * 4);
    }
    return false;
  }

  const Source& source_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  uint64_t strings_ = 0, strings_end_ = 0, symbols_ = 0, symbols_end_ = 0;
  std::optional<uint64_t> gnu_hash_, sysv_hash_;
  uint32_t first_note_bytes_ = 0;
  std::string build_id_;
};

void read_into(NoteResult& result, const Source& source, const std::string& path) {
  try {
    Reader(source).read(result.info);
  } catch (Stop& stop) {
    result.diagnosis = {stop.fault, path, std::move(stop.reason), std::move(stop.hint)};
  }
}

struct FileHandle {
  int fd;
  ~FileHandle() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

NoteResult read_note(const std::string& path) {
  NoteResult result;
  auto unreadable = [&](std::string reason) {
    result.diagnosis = {PluginFault::unreadable, path, std::move(reason), ""};
    return result;
  };
  FileHandle file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat status {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0)
    return unreadable(
        message("expected a shared object, but it cannot be opened: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    return unreadable("expected a shared object, found something that is not a regular file");
  result.info.file = identity_of(status);
  read_into(result, Source(file.fd, result.info.file.size), path);
  return result;
}

NoteResult read_note(std::span<const std::byte> bytes, const std::string& name) {
  NoteResult result;
  result.info.file.size = bytes.size();
  read_into(result, Source(bytes), name);
  return result;
}

ExtraExports read_extra_exports(const std::string& path) {
  FileHandle file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat status {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  try {
    Source source(file.fd, static_cast<uint64_t>(status.st_size));
    Reader reader(source);
    ElfInfo info;
    reader.read(info);
    return reader.extra_exports();
  } catch (const Stop&) {
    return {};  // what is wrong with it, read_note() tells
  }
}

}  // namespace tenon
