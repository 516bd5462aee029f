// mapped_file.cpp: dsrt::MappedFile for Python, as a read-only buffer.
#include <string>

#include "bindings/register.h"
#include "dsrt/file.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

py::buffer_info to_buffer(const MappedFile& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.bytes().data()),
          static_cast<py::ssize_t>(file.bytes().size())};
}

void let_go(const MappedFile& file) { file.let_go(0, file.bytes().size()); }

}  // namespace

void register_mapped_file(py::module_& module) {
  py::class_<MappedFile>(module, "MappedFile", py::buffer_protocol())
      .def(py::init<std::string, std::uint64_t>(), py::arg("path"), py::arg("expected_bytes"))
      .def_buffer(&to_buffer)
      .def("__len__", [](const MappedFile& file) { return file.bytes().size(); })
      .def("let_go", &let_go);
}

}  // namespace dsrt::bindings
