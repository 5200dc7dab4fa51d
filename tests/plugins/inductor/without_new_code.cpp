// Runs a program that may not make memory executable: without_new_code PROGRAM [ARGUMENT]...
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

int main(int argc, char** argv) {
  constexpr unsigned long refuse_exec_gain = 1;
  if (argc < 2) return 2;
  if (prctl(PR_SET_MDWE, refuse_exec_gain, 0L, 0L, 0L) != 0) {
    std::puts("skipped: this kernel knows no PR_SET_MDWE");
    return 0;
  }
  execv(argv[1], argv + 1);
  std::perror(argv[1]);
  return 1;
}
