// shard_writer.cpp: dsrt::ShardWriter for Python.
#include "dsrt/shard_writer.h"

#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/register.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

// Copying this much takes longer than giving the GIL away and taking it back.
constexpr std::size_t large_bytes = std::size_t{64} << 10;

// How long a waiting producer may be deaf to Ctrl-C.
constexpr std::chrono::milliseconds signal_interval{50};

// Py_buffers, released when this goes.
struct Views {
  Views() = default;
  ~Views() {
    for (Py_buffer& view : held) PyBuffer_Release(&view);
  }
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;

  std::vector<Py_buffer> held;
};

// The memory of a sequence of C-contiguous buffers, valid while this lives.
class Buffers {
 public:
  explicit Buffers(py::handle sequence)
      : objects_(py::reinterpret_steal<py::object>(PySequence_Tuple(sequence.ptr()))) {
    if (!objects_) throw py::error_already_set();
    const Py_ssize_t count = PyTuple_GET_SIZE(objects_.ptr());
    spans_.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) add(PyTuple_GET_ITEM(objects_.ptr(), i));
  }

  const std::vector<std::span<const std::byte>>& spans() const { return spans_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void add(PyObject* object) {
    if (PyBytes_CheckExact(object)) {  // Immutable: the reference in the tuple is enough.
      add(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object));
      return;
    }
    views_.held.reserve(spans_.capacity());
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0) throw py::error_already_set();
    views_.held.push_back(view);
    add(view.buf, view.len);
  }

  void add(const void* data, Py_ssize_t size) {
    spans_.emplace_back(static_cast<const std::byte*>(data), static_cast<std::size_t>(size));
    bytes_ += static_cast<std::size_t>(size);
  }

  py::object objects_;
  std::vector<std::span<const std::byte>> spans_;
  Views views_;
  std::size_t bytes_ = 0;
};

// Calls `wait(patience)` without the GIL until it returns true, or Python code that a signal calls
// raises.
template <typename Wait>
void wait_listening(Wait wait) {
  const auto is_over = [&] {
    const py::gil_scoped_release released;
    return wait(signal_interval);
  };
  while (!is_over()) {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void append(ShardWriter& writer, py::handle parts) {
  const Buffers buffers(parts);
  if (writer.is_full()) {
    wait_listening([&](auto patience) { return writer.wait_for_room(patience); });
  }
  std::optional<py::gil_scoped_release> released;
  if (buffers.bytes() >= large_bytes) released.emplace();
  writer.append(buffers.spans());
}

WriteSummary finish(ShardWriter& writer) {
  wait_listening([&](auto patience) { return writer.wait_until_written(patience); });
  const py::gil_scoped_release released;
  return writer.finish();
}

std::vector<std::tuple<std::string, std::uint64_t, std::uint32_t>> file_tuples(
    const WriteSummary& summary) {
  std::vector<std::tuple<std::string, std::uint64_t, std::uint32_t>> files;
  for (const WrittenFile& file : summary.files) {
    files.emplace_back(file.path, file.bytes, file.crc32c);
  }
  return files;
}

}  // namespace

void register_shard_writer(py::module_& module) {
  py::class_<WriteSummary>(module, "WriteSummary")
      .def_readonly("num_records", &WriteSummary::num_records)
      .def_readonly("raw_bytes", &WriteSummary::raw_bytes)
      .def_readonly("stored_bytes", &WriteSummary::stored_bytes)
      .def_readonly("max_record_bytes", &WriteSummary::max_record_bytes)
      .def_property_readonly("files", &file_tuples);

  // Destruction joins threads, which may be inside an fsync.
  py::class_<ShardWriter>(module, "ShardWriter", py::release_gil_before_calling_cpp_dtor())
      .def(py::init([](const std::string& directory, std::uint64_t shard_bytes,
                       std::size_t alignment, std::optional<int> level,
                       std::optional<py::bytes> dictionary, int threads,
                       std::size_t max_pending_bytes) {
             ShardWriterOptions options;
             options.shard_bytes = shard_bytes;
             options.alignment = alignment;
             options.level = level;
             if (dictionary) {
               const auto content = std::as_bytes(std::span(std::string_view(*dictionary)));
               options.dictionary.assign(content.begin(), content.end());
             }
             options.threads = threads;
             options.max_pending_bytes = max_pending_bytes;
             const py::gil_scoped_release released;
             return std::make_unique<ShardWriter>(directory, options);
           }),
           py::arg("directory"), py::kw_only(), py::arg("shard_bytes"), py::arg("alignment"),
           py::arg("level"), py::arg("dictionary"), py::arg("threads"),
           py::arg("max_pending_bytes"))
      .def("append", &append, py::arg("parts"))
      .def("finish", &finish)
      .def("abort", &ShardWriter::abort, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("num_records", &ShardWriter::num_records)
      .def_property_readonly("raw_bytes", &ShardWriter::raw_bytes)
      .def_property_readonly("stored_bytes", &ShardWriter::stored_bytes);
}

}  // namespace dsrt::bindings
