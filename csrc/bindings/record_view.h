// record_view.h: record bytes of the core as read-only memoryviews, without a copy.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsrt/record_reader.h"

namespace dsrt::bindings {

void register_record_view(pybind11::module_& module);

// Appends a view of each record to `views`; the views keep `shards` and the records' memory alive.
void append_views(const std::shared_ptr<const ShardSet>& shards, const RawRecords& records,
                  pybind11::list& views);

// The row numbers in a one-dimensional array, each checked to exist.
std::vector<std::int64_t> to_rows(const pybind11::array_t<std::int64_t>& array,
                                  const ShardSet& shards);

}  // namespace dsrt::bindings
