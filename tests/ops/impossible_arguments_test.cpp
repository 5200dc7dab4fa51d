// What a kernel refuses about shapes and attributes, the op's shape function refuses too; and where
// sizes are symbols, it asks for all that it refuses.
//
//   impossible_arguments_test SAMPLES [--all] [op ...]
//
// Problem: compiled code never sees the kernel that eager calls, only the shape function. A check
// that stands in the kernel alone is lost there, and the code reads and writes out of bounds.
// Method: of each recorded call, and of each call in the file SAMPLES of ops that are not recorded
// (see op_samples_test), one argument after the other is made impossible (a dimension that
// is not there, huge and negative numbers, tensors of another size, rank or dtype, lists of another
// length), and the call runs twice: on real tensors, and on fakes. Where the first one is refused,
// the second one must be; unless zeros as integer elements make the kernel accept the call, or the
// shape function itself says that it depends on data: then data was the reason. --all also prints
// the calls that only fakes refuse. What fakes refuse for other sizes must not serve where the
// recorded call was recorded with symbolic ones: compiled code would run. Cost: some 100 calls for
// each recorded one.
#include "argument_changes.h"
#include "core/dispatch.h"
#include "debug/op_compare.h"
#include "ops/kernel_loops.h"
#include "sample_call.h"
#include "sample_file.h"
#include "symbolic_sizes.h"

#include <tenon/ops.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>

namespace tenon::testing {
namespace {

// ---- running

bool is_data(const Tensor& t) { return t.defined() && !is_wrapped_number(t); }

// Zeros are valid as indices, offsets, lengths and targets of nearly all ops.
void clear_integers(CallValues& call) {
  auto clear = [](const Tensor& t) {
    if (is_data(t) && !is_floating(t.dtype())) t.zero_();
  };
  for (const Value& v : call.values) {
    if (v.tag == Tag::tensor) clear(*v.as<Tensor>());
    if (v.tag == Tag::tensors)
      for (const Tensor& t : list_in(v)) clear(t);
  }
}

struct Verdict {
  bool refused = false, open = false;  ///< open: for lack of memory or of data
  bool internal = false;
  std::string why;
};

Verdict run(const OpEntry& op, const CallValues& call, bool on_fakes) {
  try {
    std::optional<FakeScope> fakes;
    if (on_fakes) fakes.emplace();
    OpResults results(op.n_returns);
    run_op(op, call, results);
    return {};
  } catch (const std::bad_alloc&) {
    return {.refused = true, .open = true, .why = "no memory"};
  } catch (const Error& error) {
    std::string why = error.what();
    bool open =
        error.code() == ErrorCode::data_dependent || why.find("memory") != std::string::npos;
    return {true, open, error.code() == ErrorCode::internal, why};
  } catch (const std::exception& error) {
    return {true, false, true, error.what()};
  }
}

/// The one that runs, for the handler of the alarm.
char running[512];

/// A call takes milliseconds: what takes so long hangs, however busy the machine is.
constexpr unsigned most_seconds = 60;

void announce(const std::string& text) {
  std::snprintf(running, sizeof running, "%s\n", text.c_str());
  alarm(most_seconds);
}

extern "C" void at_end(int signal) {
  constexpr char text[] = "crashed, or took more than 60 s: ";
  (void)!write(2, text, sizeof text - 1);
  (void)!write(2, running, std::strlen(running));
  _exit(signal == SIGALRM ? 3 : 4);
}

// ---- verdicts

/// What kernels say about elements, which shape functions cannot see, and which zeros do not cure.
const char* const about_elements[] = {
    "is out of range for a dimension of size",  // an index
    "is out of range for a table of",
    "is out of range for an output plane of",
    "is out of range for a gradient of",
    "is out of bounds for",
    "do not fit",  // offsets of bags
    "the last offset is the number of indices",
    "does not fit",
    "the repeats add up to",
    "lies outside of a storage",  // compiled code asks the tensor that it gets
    "divided by zero",
    "singular",
    "must not sum to zero",
    "the windows leave a gap",
    // What LAPACK does not compute; whose turn it is, is known at the call only.
    "are not computed on the CPU",
    "can be chosen on CUDA only",
};

// How many elements a mask chooses is known to the kernel only.
bool is_about_masks(const std::string& why, const CallValues& call) {
  bool has_mask = std::ranges::any_of(call.tensor_lists, [](const std::vector<Tensor>& list) {
    return std::ranges::any_of(
        list, [](const Tensor& t) { return t.defined() && t.dtype() == Dtype::bool_; });
  });
  return has_mask && why.find("do not broadcast") != std::string::npos;
}

bool is_about_elements(const std::string& why) {
  return std::ranges::any_of(about_elements,
                             [&](const char* text) { return why.find(text) != std::string::npos; });
}

struct Report {
  std::string op;
  std::map<std::string, std::string> lost;  ///< by argument and change: why the kernel refuses
  size_t calls = 0, refused = 0;
};

/// One call, made anew for each change.
struct Case {
  std::string name;
  std::function<CallValues()> make;
};

class Checker {
 public:
  Checker(const OpEntry& op, bool all) : op_(op), all_(all) { report_.op = op.name; }

  Report run_all(const std::vector<Case>& cases) {
    for (const Case& c : cases) check_case(c);
    return std::move(report_);
  }

 private:
  void check_case(const Case& c) {
    announce(message("{} {} with symbolic sizes", op_.name, c.name));
    symbolic_.emplace(op_, c.make());
    for (size_t arg = 0; arg < op_.schema.args.size(); ++arg) {
      std::vector<Change> changes;
      add_changes(changes, op_.schema.args[arg], arg);
      for (const Change& change : changes) check(c, arg, change);
    }
  }

  static CallValues make(const Case& c, const Change& change) {
    CallValues call = c.make();
    change.apply(call);
    return call;
  }

  Verdict real(const Case& c, const Change& change, bool cleared) {
    CallValues call = make(c, change);
    if (cleared) clear_integers(call);
    return run(op_, call, false);
  }

  Verdict fake(const Case& c, const Change& change) {
    CallValues call = make(c, change);
    make_fakes(call, ArgumentKind::fake);
    return run(op_, call, true);
  }

  void check(const Case& c, size_t arg, const Change& change) {
    std::string place = message("{}: {}", op_.schema.args[arg].name, change.what);
    announce(message("{} {} {}", op_.name, c.name, place));
    ++report_.calls;
    Verdict meta;
    try {
      meta = fake(c, change);
    } catch (const Error&) {
      return;  // recorded with what the host does not have
    }
    if (meta.internal) return note(place, "internal error of the shape function: " + meta.why);
    bool of_tensors = op_.schema.args[arg].type.base == BaseType::tensor;
    if (of_tensors && meta.refused && !meta.open && symbolic_->serve(make(c, change)))
      return note(place, "with symbolic sizes nobody asks: " + meta.why);
    if (meta.open || (meta.refused && !all_)) return void(report_.refused += meta.refused);
    Verdict kernel = real(c, change, false);
    if (kernel.internal) return note(place, "internal error of the kernel: " + kernel.why);
    if (meta.refused && !kernel.refused)
      std::printf("%s: %s: only fakes refuse: %s\n", op_.name.c_str(), place.c_str(),
                  meta.why.c_str());
    if (meta.refused || !kernel.refused || kernel.open) return;
    Verdict again = real(c, change, true);
    bool is_open = is_about_elements(again.why) || is_about_masks(again.why, make(c, change));
    if (again.refused && !is_open) note(place, again.why);
  }

  void note(const std::string& place, const std::string& why) { report_.lost.emplace(place, why); }

  const OpEntry& op_;
  bool all_;
  std::optional<SymbolicSizes> symbolic_;  // of the recorded call
  Report report_;
};

bool wanted(const std::string& op, const std::vector<std::string>& names) {
  return names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
           return op.find("." + name) != std::string::npos;
         });
}

/// What the processes count together.
struct Counts {
  std::atomic<size_t> rows, ops, calls, refused, lost;
};

/// An op of the table or of a recording, and where its calls are.
struct Row {
  std::string op;
  std::string recording;             ///< a path, else:
  std::vector<std::string> samples;  ///< texts of calls
};

std::vector<Row> all_rows(const std::string& samples) {
  SampleFile file(samples);
  std::vector<Row> rows;
  std::map<std::string, std::string> recorded = recorded_ops();
  for (const auto& [op, path] : recorded) rows.push_back({op, path, {}});
  for (const std::string& op : all_op_names()) {
    if (recorded.contains(op)) continue;
    std::vector<std::string> calls = file.entry_for(op).calls;
    if (calls.empty() && !file.entry_for(op).untested)
      if (auto text = made_up_call(*find_op(op))) calls.push_back(*text);
    if (!calls.empty()) rows.push_back({op, "", calls});
  }
  return rows;
}

std::vector<Case> cases_of(const OpRecording& recording, const OpEntry& op) {
  constexpr size_t most = 4;
  std::vector<Case> out;
  for (const RecordedCall& c : recording.cases())
    if (out.size() < most)
      out.push_back({message("#{}", c.index),
                     [&] { return make_call(recording, c, op, ArgumentKind::real); }});
  return out;
}

std::vector<Case> cases_of(const std::vector<std::string>& samples, const OpEntry& op) {
  std::vector<Case> out;
  for (const std::string& text : samples) out.push_back({text, [&] { return call_of(op, text); }});
  return out;
}

Report report_of(const Row& row, const OpEntry& op, bool all) {
  if (row.recording.empty()) return Checker(op, all).run_all(cases_of(row.samples, op));
  OpRecording recording = OpRecording::read(row.recording);
  return Checker(op, all).run_all(cases_of(recording, op));
}

void run_row(const Row& row, bool all, Counts& counts) {
  const OpEntry* op = find_op(row.op);
  if (!op) return;
  Report report = report_of(row, *op, all);
  counts.calls += report.calls, counts.refused += report.refused, ++counts.ops;
  counts.lost += report.lost.size();
  for (const auto& [place, why] : report.lost)
    std::printf("%s: %s: lost in compiled code: %s\n", report.op.c_str(), place.c_str(),
                why.c_str());
}

bool succeeds(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

// In a process of its own, so that a crash costs one op; a second one takes every second row.
void run_apart(const Row& row, bool all, Counts& counts) {
  pid_t child = fork();
  require(child >= 0, "no process can be started");
  if (child == 0) {
    int status = 0;
    try {
      run_row(row, all, counts);
    } catch (const Error& e) {
      // Some are recorded with types that the host does not have.
      status = e.code() != ErrorCode::unsupported;
      if (status) std::printf("%s: %s\n", row.op.c_str(), e.what());
    }
    std::fflush(stdout);
    _exit(status);
  }
  if (!succeeds(child)) ++counts.lost;
  ++counts.rows;
}

int run_ops(const std::string& samples, const std::vector<std::string>& names, bool all) {
  void* shared =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(shared != MAP_FAILED, "no memory");
  auto& counts = *new (shared) Counts();
  std::vector<Row> rows = all_rows(samples);
  std::erase_if(rows, [&](const Row& row) { return !wanted(row.op, names); });
  pid_t second = fork();
  require(second >= 0, "no process can be started");
  for (size_t i = second == 0; i < rows.size(); i += 2) run_apart(rows[i], all, counts);
  if (second == 0) _exit(0);
  bool all_seen = succeeds(second) && counts.rows == rows.size();
  std::printf("%zu ops, %zu calls, %zu refused by shape functions, %zu lost in compiled code\n",
              counts.ops.load(), counts.calls.load(), counts.refused.load(), counts.lost.load());
  if (!all_seen) std::printf("%zu of %zu rows were seen\n", counts.rows.load(), rows.size());
  return !all_seen || counts.ops == 0 || counts.lost != 0;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  using namespace tenon::testing;
  rlimit memory{size_t{2} << 30, size_t{2} << 30};
  setrlimit(RLIMIT_AS, &memory);
  for (int signal : {SIGALRM, SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, at_end);
  std::vector<std::string> names(argv + 1, argv + argc);
  bool all = std::erase(names, "--all") != 0;
  try {
    tenon::require(!names.empty(), "usage: impossible_arguments_test SAMPLES [--all] [op ...]");
    std::string samples = names.front();
    names.erase(names.begin());
    return run_ops(samples, names, all);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "impossible_arguments_test: %s\n", e.what());
    return 2;
  }
}
