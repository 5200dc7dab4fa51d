// A library without functions.
static int nothing [[maybe_unused]] = 0;
