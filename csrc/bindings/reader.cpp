// reader.cpp: dsrt::RecordLayout and dsrt::BoundedReader for Python.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/record_view.h"
#include "bindings/register.h"
#include "dsrt/batch.h"
#include "dsrt/bounded_reader.h"
#include "dsrt/record_access.h"
#include "dsrt/record_batch.h"
#include "dsrt/record_layout.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

using Rows = py::array_t<std::int64_t>;
using FieldTuple = std::tuple<std::string, std::uint64_t, std::vector<std::optional<std::int64_t>>>;

// How long a waiting consumer may be deaf to Ctrl-C.
constexpr std::chrono::milliseconds signal_interval{50};

RecordLayout to_layout(const std::vector<FieldTuple>& tuples) {
  std::vector<ArrayField> fields;
  for (const auto& [name, item_bytes, shape] : tuples) {
    ArrayField field{name, item_bytes, {}};
    for (const auto& extent : shape) field.shape.push_back(extent.value_or(ArrayField::ragged));
    fields.push_back(std::move(field));
  }
  return RecordLayout(std::move(fields));
}

// What both readers share: rows in, finished batches out.
class Reader {
 public:
  Reader(const RecordAccess& access, const ReaderOptions& options)
      : shards_(access.shards()),
        pool_(BufferPool::create(options.max_bytes)),
        reader_(shards_, options) {}
  virtual ~Reader() = default;

  void submit(const Rows& rows) { reader_.submit(make_batch(to_rows(rows, *shards_))); }

  std::unique_ptr<Batch> next() {
    std::unique_ptr<Batch> batch = reader_.next(std::chrono::milliseconds(0));
    while (!batch) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      const py::gil_scoped_release released;
      batch = reader_.next(signal_interval);
    }
    return batch;
  }

  void close() {
    const py::gil_scoped_release released;
    reader_.close();
  }

  const BoundedReader& reader() const { return reader_; }

 protected:
  virtual std::unique_ptr<Batch> make_batch(std::vector<std::int64_t> rows) = 0;

  std::shared_ptr<const ShardSet> shards_;
  std::shared_ptr<BufferPool> pool_;

 private:
  BoundedReader reader_;
};

// An array that holds a part of the batch's block until it is dropped.
py::array to_array(const py::dtype& dtype, const std::shared_ptr<std::byte>& data,
                   std::size_t num_rows, std::size_t row_items) {
  const py::capsule owner(new std::shared_ptr<std::byte>(data), [](void* pointer) {
    delete static_cast<std::shared_ptr<std::byte>*>(pointer);
  });
  return py::array(dtype, {num_rows, row_items}, data.get(), owner);
}

class BatchReader : public Reader {
 public:
  BatchReader(const RecordAccess& access, const RecordLayout& layout,
              std::vector<std::size_t> fields, const ReaderOptions& options)
      : Reader(access, options),
        plan_(std::make_shared<const GatherPlan>(shards_, layout, std::move(fields), pool_)) {}

  py::list next_fields() {
    const std::unique_ptr<Batch> batch = next();
    const std::size_t num_records = batch->num_records();
    py::list result;
    for (const FieldArray& field : static_cast<const ArrayBatch&>(*batch).fields()) {
      py::object extents = py::none();
      if (field.extents) {
        extents = to_array(py::dtype::of<std::int64_t>(), field.extents, num_records,
                           field.num_ragged_axes);
      }
      result.append(py::make_tuple(
          to_array(py::dtype::of<std::uint8_t>(), field.data, num_records, field.row_bytes),
          extents, py::tuple(py::cast(field.shape))));
    }
    return result;
  }

 private:
  std::unique_ptr<Batch> make_batch(std::vector<std::int64_t> rows) override {
    return make_array_batch(plan_, std::move(rows));
  }

  std::shared_ptr<const GatherPlan> plan_;
};

class RawReader : public Reader {
 public:
  using Reader::Reader;

  py::list next_records() {
    const std::unique_ptr<Batch> batch = next();
    py::list result;
    for (const RawRecords& slice : static_cast<const RecordBatch&>(*batch).slices()) {
      append_views(shards_, slice, result);
    }
    return result;
  }

 private:
  std::unique_ptr<Batch> make_batch(std::vector<std::int64_t> rows) override {
    return std::make_unique<RecordBatch>(*shards_, pool_, std::move(rows));
  }
};

py::dict to_dict(const ReaderStats& stats) {
  py::dict dict;
  dict["batches"] = stats.batches;
  dict["records"] = stats.records;
  dict["bytes"] = stats.bytes;
  dict["wait_ns"] = stats.wait_ns;
  dict["read_ns"] = stats.read_ns;
  return dict;
}

}  // namespace

void register_reader(py::module_& module) {
  py::class_<RecordLayout>(module, "RecordLayout")
      .def(py::init(&to_layout), py::arg("fields"))
      .def_property_readonly("record_bytes",
                             [](const RecordLayout& layout) -> std::optional<std::uint64_t> {
                               if (!layout.is_fixed()) return std::nullopt;
                               return layout.record_bytes();
                             });

  py::class_<Reader>(module, "Reader")
      .def("submit", &Reader::submit, py::arg("rows").noconvert())
      .def_property_readonly("pending",
                             [](const Reader& reader) { return reader.reader().pending(); })
      .def("can_submit", [](const Reader& reader) { return reader.reader().can_submit(); })
      .def("stats", [](const Reader& reader) { return to_dict(reader.reader().stats()); })
      .def("close", &Reader::close);

  py::class_<BatchReader, Reader>(module, "BatchReader")
      .def(py::init([](const RecordAccess& shards, const RecordLayout& layout,
                       std::vector<std::size_t> fields, int threads, std::size_t max_batches,
                       std::uint64_t max_bytes) {
             return std::make_unique<BatchReader>(shards, layout, std::move(fields),
                                                  ReaderOptions{threads, max_batches, max_bytes});
           }),
           py::arg("shards"), py::arg("layout"), py::arg("fields"), py::kw_only(),
           py::arg("threads"), py::arg("max_batches"), py::arg("max_bytes"))
      .def("next", &BatchReader::next_fields);

  py::class_<RawReader, Reader>(module, "RawReader")
      .def(py::init([](const RecordAccess& shards, int threads, std::size_t max_batches,
                       std::uint64_t max_bytes) {
             return std::make_unique<RawReader>(shards,
                                                ReaderOptions{threads, max_batches, max_bytes});
           }),
           py::arg("shards"), py::kw_only(), py::arg("threads"), py::arg("max_batches"),
           py::arg("max_bytes"))
      .def("next", &RawReader::next_records);
}

}  // namespace dsrt::bindings
