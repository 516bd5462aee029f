// register.h: one function a part of the core; each adds its classes to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace dsrt::bindings {

void register_errors(pybind11::module_& module);
void register_store(pybind11::module_& module);
void register_shard_writer(pybind11::module_& module);  // part of register_store
void register_shard_set(pybind11::module_& module);     // part of register_store
void register_plain_bytes(pybind11::module_& module);   // part of register_store
void register_mapped_file(pybind11::module_& module);   // part of register_store
void register_reader(pybind11::module_& module);
void register_draws(pybind11::module_& module);

}  // namespace dsrt::bindings
