// Checks of the test programs.
#ifndef DRYSTONE_TESTS_CHECK_HPP
#define DRYSTONE_TESTS_CHECK_HPP

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
