// Starting Chromium, its messages, and what it is asked to do.
#include "browser.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <stdexcept>

extern char** environ;

namespace tenon::page {

namespace {

constexpr int most_seconds = 60;  // for one answer, on a machine that is busy

// Chromium reads commands from descriptor 3 and writes to 4.
int start(std::vector<std::string> words, int commands, int answers) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, commands, 3);
  posix_spawn_file_actions_adddup2(&actions, answers, 4);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(words[0] + " cannot be started");
  return child;
}

// Numbers above 4, so that the two that the child gets are free.
int moved_up(int descriptor) {
  int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  ::close(descriptor);
  return moved;
}

std::string from_base64(const std::string& text) {
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (char c : text) {
    static const std::string letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t value = letters.find(c);
    if (value == std::string::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((n += 6) >= 8) out += static_cast<char>(bits >> (n -= 8) & 0xff);
  }
  return out;
}

}  // namespace

Browser::Browser(const std::string& program) {
  std::string folder = (std::filesystem::temp_directory_path() / "tenon-page-XXXXXX").string();
  if (!::mkdtemp(folder.data())) throw std::runtime_error("no folder for a profile");
  profile_ = folder;
  int commands[2], answers[2];
  if (::pipe(commands) != 0 || ::pipe(answers) != 0) throw std::runtime_error("no pipes");
  for (int* pipe : {commands, answers})
    for (int end : {0, 1}) pipe[end] = moved_up(pipe[end]);
  // Its sandbox needs rights that containers do not give; the pages are our own.
  child_ = start({program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                  "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars",
                  "--disable-background-networking", "--disable-component-update",
                  "--force-color-profile=srgb", "--remote-debugging-pipe",
                  "--user-data-dir=" + folder, "about:blank"},
                 commands[0], answers[1]);
  ::close(commands[0]);
  ::close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  Json target = call("Target.createTarget", {{"url", "about:blank"}});
  Json attached =
      call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}});
  session_ = attached["sessionId"];
  for (const char* domain : {"Page", "Runtime", "Log", "Network"})
    call(std::string(domain) + ".enable", Json::object());
}

Browser::~Browser() {
  ::close(to_);
  ::close(from_);
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
  std::error_code error;
  std::filesystem::remove_all(profile_, error);
}

// Messages end with a zero byte.
Browser::Json Browser::next_message() {
  size_t end;
  while ((end = unread_.find('\0')) == std::string::npos) {
    pollfd ready{from_, POLLIN, 0};
    if (::poll(&ready, 1, most_seconds * 1000) != 1)
      throw std::runtime_error("the browser does not answer");
    char buffer[65536];
    ssize_t n = ::read(from_, buffer, sizeof buffer);
    if (n <= 0) throw std::runtime_error("the browser has ended");
    unread_.append(buffer, static_cast<size_t>(n));
  }
  Json message = Json::parse(unread_.substr(0, end));
  unread_.erase(0, end + 1);
  return message;
}

void Browser::hear(const Json& message) {
  std::string method = message.value("method", "");
  const Json& p = message.contains("params") ? message["params"] : Json::object();
  if (method == "Page.loadEventFired") has_loaded_ = true;
  if (method == "Runtime.exceptionThrown") complaints_.push_back(p.dump());
  if (method == "Runtime.consoleAPICalled" && p["type"] != "log") complaints_.push_back(p.dump());
  if (method == "Log.entryAdded") complaints_.push_back(p.dump());
  if (method != "Network.requestWillBeSent") return;
  std::string url = p["request"]["url"];
  if (!url.starts_with("file:") && !url.starts_with("about:")) complaints_.push_back(url);
}

Browser::Json Browser::call(const std::string& method, const Json& params) {
  Json command{{"id", ++last_id_}, {"method", method}, {"params", params}};
  if (!session_.empty()) command["sessionId"] = session_;
  std::string text = command.dump() + '\0';
  for (size_t sent = 0; sent < text.size();) {
    ssize_t n = ::write(to_, text.data() + sent, text.size() - sent);
    if (n <= 0) throw std::runtime_error("the browser takes no commands");
    sent += static_cast<size_t>(n);
  }
  while (true) {
    Json message = next_message();
    hear(message);
    if (!message.contains("id") || message["id"] != last_id_) continue;
    if (message.contains("error"))
      throw std::runtime_error(method + ": " + message["error"].dump());
    return message["result"];
  }
}

void Browser::open(const std::string& url, const Window& window) {
  call("Emulation.setDeviceMetricsOverride", {{"width", window.width},
                                              {"height", window.height},
                                              {"deviceScaleFactor", window.is_phone ? 2 : 1},
                                              {"mobile", window.is_phone}});
  call("Emulation.setTouchEmulationEnabled", {{"enabled", window.is_phone}});
  Json scheme{{"name", "prefers-color-scheme"}, {"value", window.is_dark ? "dark" : "light"}};
  call("Emulation.setEmulatedMedia", {{"features", Json::array({scheme})}});
  navigate("about:blank");  // or else the same page is only scrolled
  complaints_.clear();
  navigate(url);
}

void Browser::navigate(const std::string& url) {
  has_loaded_ = false;
  call("Page.navigate", {{"url", url}});
  while (!has_loaded_) hear(next_message());
}

Browser::Json Browser::evaluate(const std::string& expression) {
  Json result = call("Runtime.evaluate",
                     {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  if (result.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + result["exceptionDetails"].dump());
  return result["result"].value("value", Json());
}

void Browser::mouse(const std::string& type, double x, double y, const Json& more) {
  Json params{{"type", type}, {"x", x}, {"y", y}};
  params.update(more);
  call("Input.dispatchMouseEvent", params);
}

void Browser::drag(double from_x, double from_y, double to_x, double to_y) {
  const Json button{{"button", "left"}, {"buttons", 1}, {"clickCount", 1}};
  mouse("mousePressed", from_x, from_y, button);
  constexpr int steps = 5;
  bool moves = from_x != to_x || from_y != to_y;
  for (int i = 1; i <= steps && moves; ++i)
    mouse("mouseMoved", from_x + (to_x - from_x) * i / steps, from_y + (to_y - from_y) * i / steps,
          button);
  mouse("mouseReleased", to_x, to_y, button);
}

void Browser::turn_wheel_with_ctrl(double x, double y, double by) {
  constexpr int ctrl = 2;
  mouse("mouseWheel", x, y, {{"deltaX", 0}, {"deltaY", by}, {"modifiers", ctrl}});
}

std::string Browser::screenshot() {
  return from_base64(call("Page.captureScreenshot", {{"format", "png"}})["data"]);
}

}  // namespace tenon::page
