// check.h: the macros that the C++ tests need; a failed check prints both sides and exits 1.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::cerr << __FILE__ << ":" << __LINE__ << ": CHECK(" #condition ") failed\n"; \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (false)

#define CHECK_EQ(a, b)                                                                      \
  do {                                                                                      \
    const auto check_a = (a);                                                               \
    const auto check_b = (b);                                                               \
    if (!(check_a == check_b)) {                                                            \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " #a " = " << check_a << ", " #b " = " \
                << check_b << "\n";                                                         \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (false)

#define CHECK_THROWS(expression, exception)                                          \
  do {                                                                               \
    bool thrown = false;                                                             \
    try {                                                                            \
      (void)(expression);                                                            \
    } catch (const exception&) {                                                     \
      thrown = true;                                                                 \
    }                                                                                \
    if (!thrown) {                                                                   \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " #expression " did not throw " \
                << #exception "\n";                                                  \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (false)

// The exception's message must contain `text`.
#define CHECK_THROWS_WITH(expression, exception, text)                                   \
  do {                                                                                   \
    std::string message = "nothing was thrown";                                          \
    try {                                                                                \
      (void)(expression);                                                                \
    } catch (const exception& error) {                                                   \
      message = error.what();                                                            \
    }                                                                                    \
    if (message.find(text) == std::string::npos) {                                       \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " #expression " said \"" << message \
                << "\", not \"" << (text) << "\"\n";                                     \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)
