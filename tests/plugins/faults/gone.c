/* A library that the fixture missing_library links, in a folder where nobody looks. */
int tenon_test_gone(void);
int tenon_test_gone(void) { return 1; }
