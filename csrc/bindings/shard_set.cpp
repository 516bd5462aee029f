// shard_set.cpp: dsrt::ShardSet for Python.
#include "bindings/register.h"

namespace dsrt::bindings {

void register_shard_set(pybind11::module_&) {}

}  // namespace dsrt::bindings
