// map_report.h: says which mapped file a process dies of.
#pragma once

#include <cstdint>

namespace dsrt {

// Writes to stderr which file is mapped at `address` and could not be read; nothing if none is.
// Calls only what a signal handler may call.
void report_lost_page(std::uintptr_t address) noexcept;

}  // namespace dsrt
