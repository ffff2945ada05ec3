int coz_test_nothing(void) { return 0; }
