// errors.cpp: C++ failures become the exception classes of dsrt_lightning.errors.
#include <cstring>

#include "bindings/register.h"
#include "dsrt/error.h"

namespace py = pybind11;

namespace dsrt::bindings {

void register_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pending) {
    try {
      if (pending) std::rethrow_exception(pending);
    } catch (const CorruptError& error) {
      const py::object type =
          py::module_::import("dsrt_lightning.errors").attr("CorruptCacheError");
      PyErr_SetString(type.ptr(), error.what());
    } catch (const SystemError& error) {
      const py::tuple arguments = py::make_tuple(
          error.code(), std::string(error.what()) + ": " + std::strerror(error.code()),
          error.path());
      PyErr_SetObject(PyExc_OSError, arguments.ptr());
    }
  });
}

}  // namespace dsrt::bindings
