// Reading a .pt2 archive: the container, its versions, and the steps in order.
#include <algorithm>

#include "formats/pt2/pt2_parts.h"

namespace tenon::formats {

using namespace pt2;

namespace {

constexpr int64_t kSchemaMajor = 8;

[[noreturn]] void fail_old_layout(const ZipArchive& archive) {
  fail(ErrorCode::bad_file,
       "{}: has the layout of an older PyTorch; save it again with torch.export.save of a current "
       "PyTorch",
       archive.subject());
}

// Whether a record of the layouts before archive version 0 is there, at the top or in a folder.
bool has_old_layout(const ZipArchive& archive) {
  return std::ranges::any_of(archive.entries(), [](const ZipEntry& entry) {
    std::string_view name = entry.name;
    return name.ends_with("serialized_exported_program.json") ||
           name.ends_with("serialized_state_dict.pt") ||
           name.ends_with("serialized_state_dict.json");
  });
}

// The folder in which everything lies.
std::string read_root(const ZipArchive& archive) {
  check(!archive.entries().empty(), "{}: the archive is empty", archive.subject());
  if (has_old_layout(archive)) fail_old_layout(archive);
  std::string_view first = archive.entries().front().name;
  std::string root(first.substr(0, first.find('/')));
  for (const ZipEntry& entry : archive.entries())
    check(entry.name.starts_with(root + "/"),
          "{}: expected every record below one folder, found {} beside {}/", archive.subject(),
          printable(entry.name), printable(root));
  return root;
}

std::string read_short(const ZipArchive& archive, const std::string& root,
                       std::string_view record) {
  const ZipEntry* entry = archive.find(root + "/" + std::string(record));
  check(entry != nullptr, "{}: the record {} is missing; is this a .pt2 archive of torch.export?",
        archive.subject(), record);
  constexpr uint64_t longest = 64;
  check(entry->size <= longest, "{}: the record {} has {} bytes, expected a short text",
        archive.subject(), record, entry->size);
  const Bytes bytes = archive.read(*entry);
  std::string_view text = as_text(bytes.span);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text);
}

void check_versions(const ZipArchive& archive, const std::string& root) {
  const std::string format = read_short(archive, root, "archive_format");
  check(format == "pt2", "{}: archive_format: expected \"pt2\", found \"{}\"", archive.subject(),
        printable(format));
  const std::string version = read_short(archive, root, "archive_version");
  check(version == "0", "{}: archive_version: expected 0, found \"{}\"; made by a newer PyTorch?",
        archive.subject(), printable(version));
  const std::string zip_version = read_short(archive, root, ".data/version");
  const bool known =
      zip_version.size() == 1 ? zip_version >= "1" && zip_version <= "9" : zip_version == "10";
  check(known, "{}: .data/version: expected 1 to 10, found \"{}\"", archive.subject(),
        printable(zip_version));
  if (!archive.find(root + "/byteorder")) return;
  const std::string order = read_short(archive, root, "byteorder");
  check(order == "little", "{}: byteorder: expected \"little\", found \"{}\"", archive.subject(),
        printable(order));
}

// The names of models/*.json.
std::vector<std::string> program_names(const ZipArchive& archive, const std::string& root) {
  const std::string before = root + "/models/";
  constexpr std::string_view after = ".json";
  std::vector<std::string> names;
  for (const ZipEntry& entry : archive.entries()) {
    std::string_view name = entry.name;
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    if (name.size() <= before.size() + after.size()) continue;
    name = name.substr(before.size(), name.size() - before.size() - after.size());
    if (name.find('/') == name.npos) names.emplace_back(name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  constexpr size_t most = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > most ? text + ", ..." : text;
}

std::string choose_program(const ZipArchive& archive, const std::string& root,
                           const std::string& wanted) {
  std::vector<std::string> names = program_names(archive, root);
  check(!names.empty(), "{}: holds no program: no record models/*.json", archive.subject());
  if (wanted.empty()) {
    require(names.size() == 1, "{}: holds {} programs: {}; name one (--program)", archive.subject(),
            names.size(), joined(names));
    return names[0];
  }
  require(std::ranges::find(names, wanted) != names.end(), "{}: holds no program {}, only {}",
          archive.subject(), wanted, joined(names));
  return wanted;
}

// Weights as one pickle, the layout before the configs.
void check_not_pickled(const ZipArchive& archive, const std::string& root,
                       const std::string& program) {
  for (std::string_view folder : {"weights", "constants"})
    if (archive.find(root + "/data/" + std::string(folder) + "/" + program + ".pt"))
      fail_old_layout(archive);
}

void read_versions(const JsonView& top, Pt2Program& program) {
  if (auto torch = top.optional_field("torch_version")) program.torch_version = torch->text();
  JsonView version = top.field("schema_version");
  program.schema_major = version.field("major").integer();
  program.schema_minor = version.field("minor").integer();
  check(program.schema_major == kSchemaMajor,
        "{}: made by PyTorch {}, schema {}.{}; this reader knows schema {}; export it again with "
        "PyTorch 2.13",
        version, program.torch_version.empty() ? "of an unknown version" : program.torch_version,
        program.schema_major, program.schema_minor, kSchemaMajor);
  if (auto verifiers = top.optional_field("verifiers"))
    for (const JsonView& verifier : verifiers->items())
      program.verifiers.push_back(verifier.text());
}

std::optional<int64_t> read_bound(const JsonView& range, std::string_view field) {
  auto bound = range.optional_field(field);
  return bound ? std::optional(bound->integer()) : std::nullopt;
}

// The exporter writes 2 for every size that it was not told a range of, because it traces 0 and 1 as
// constants; torch.export.load takes no notice of it and runs 0 and 1.
void allow_zero_and_one(Pt2Range& range) {
  constexpr int64_t written = 2;
  range.traced_min = range.min.value_or(Range::no_lower);
  if (range.min == written) range.min = 0;
}

void read_ranges(const JsonView& top, Pt2Expressions& expressions, Pt2Program& program) {
  auto constraints = top.optional_field("range_constraints");
  if (!constraints) return;
  for (const auto& [text, view] : constraints->members()) {
    Pt2Range range{.text = std::string(text),
                   .min = read_bound(view, "min_val"),
                   .max = read_bound(view, "max_val")};
    check(!range.min || !range.max || *range.min <= *range.max, "{}: the range {} to {} is empty",
          view, range.min.value_or(0), range.max.value_or(0));
    allow_zero_and_one(range);
    try {
      range.expr = expressions.read(range.text);
    } catch (const UserError&) {
      // A constraint on an expression repeats what its symbols' own say: it may be left out.
    }
    program.ranges.push_back(std::move(range));
  }
}

/// Those of a zip archive, below its folder.
class ZipRecords final : public Pt2Records {
 public:
  ZipRecords(const ZipArchive& archive, std::string root)
      : archive_(archive), root_(std::move(root)) {}
  const std::string& subject() const override { return archive_.subject(); }
  std::optional<Bytes> find(const std::string& name) const override {
    const ZipEntry* entry = archive_.find(root_ + "/" + name);
    return entry ? std::optional(archive_.read(*entry)) : std::nullopt;
  }

 private:
  const ZipArchive& archive_;
  std::string root_;
};

/// Sections of a .tenon file.
class TenonRecords final : public Pt2Records {
 public:
  explicit TenonRecords(const TenonFile& file) : file_(file) {}
  const std::string& subject() const override { return file_.subject(); }
  std::optional<Bytes> find(const std::string& name) const override { return file_.find(name); }

 private:
  const TenonFile& file_;
};

// models/NAME.json, all but the weights.
void read_program(const Pt2Records& records, Pt2Program& program) {
  const std::string record = "models/" + program.name + ".json";
  const Bytes bytes = records.read(record);
  const JsonDocument document = parse_json(bytes.span, records.subject() + ": " + record);
  const JsonView top = document.view();
  read_versions(top, program);
  Pt2Expressions expressions;
  program.symbols = expressions.env();
  JsonView graph_module = top.field("graph_module");
  program.graph = read_graph(graph_module.field("graph"), expressions);
  unwrap_effects(program.graph, records.subject() + ": " + record);
  read_signature(graph_module.field("signature"), expressions, program);
  read_calling_convention(graph_module, program);
  read_ranges(top, expressions, program);
  read_guards(top, expressions, program);
  verify_graph(program.graph, records.subject() + ": " + record);
  map_regions(program.graph);
  verify_graph(program.graph, records.subject() + ": " + record);
  program.texts.emplace_back(record, bytes);
}

Pt2Program read_records(const Pt2Records& records, Pt2Program program, const Pt2Options& options) {
  // The graph and all that stands beside it, consistent in itself.
  read_program(records, program);

  // The bytes of parameters, buffers and constants, each view within its record.
  program.weights = read_weights(records, "weights", program.name, options);
  program.constants = read_weights(records, "constants", program.name, options);

  // What the inputs and outputs of the graph are bound to.
  verify_signature(program);

  for (const char* folder : {"weights", "constants"}) {
    const std::string config = weights_config(folder, program.name);
    program.texts.emplace_back(config, records.read(config));
  }
  return program;
}

Pt2Program read_archive(const ZipArchive& archive, const Pt2Options& options) {
  // Where the records lie, and whether this reader knows their layout.
  const std::string root = read_root(archive);
  check_versions(archive, root);

  // One program of possibly several.
  Pt2Program program;
  program.file = archive.subject();
  program.name = choose_program(archive, root, options.program);
  check_not_pickled(archive, root, program.name);
  return read_records(ZipRecords(archive, root), std::move(program), options);
}

ZipOptions zip_options(const Pt2Options& options) {
  return {.check_crc = options.check_crc, .max_size = options.max_size};
}

}  // namespace

Bytes pt2::Pt2Records::read(const std::string& name) const {
  std::optional<Bytes> found = find(name);
  check(found.has_value(), "{}: the record {} is missing", subject(), name);
  return *found;
}

Pt2Program read_pt2(const TenonFile& file, const std::string& name) {
  Pt2Program program;
  program.file = file.subject();
  program.name = name;
  return read_records(TenonRecords(file), std::move(program), {});
}

Pt2Program read_pt2(const std::string& path, const Pt2Options& options) {
  return read_archive(ZipArchive::open(path, zip_options(options)), options);
}

Pt2Program read_pt2(Bytes file, const std::string& subject, const Pt2Options& options) {
  return read_archive(ZipArchive::from_bytes(std::move(file), subject, zip_options(options)),
                      options);
}

}  // namespace tenon::formats
