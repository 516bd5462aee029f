// reader.cpp: dsrt::RecordLayout and dsrt::BoundedReader for Python.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/record_view.h"
#include "bindings/register.h"
#include "dsrt/batch.h"
#include "dsrt/bounded_reader.h"
#include "dsrt/map_guard.h"
#include "dsrt/record_access.h"
#include "dsrt/record_batch.h"
#include "dsrt/record_layout.h"
#include "dsrt/touch_ahead.h"

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
  Reader(const RecordAccess& access, const ReaderOptions& options,
         std::shared_ptr<BufferPool> pool = nullptr)
      : shards_(access.shards()),
        pool_(pool ? std::move(pool) : BufferPool::create(options.max_bytes)),
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

// One tuple a field: bytes, extents of its ragged axes or None, shape of one record.
py::list to_fields(const ArrayBatch& batch) {
  py::list result;
  for (const FieldArray& field : batch.fields()) {
    py::object extents = py::none();
    if (field.extents) {
      extents = to_array(py::dtype::of<std::int64_t>(), field.extents, batch.num_records(),
                         field.num_ragged_axes);
    }
    result.append(py::make_tuple(
        to_array(py::dtype::of<std::uint8_t>(), field.data, batch.num_records(), field.row_bytes),
        extents, py::tuple(py::cast(field.shape))));
  }
  return result;
}

class BatchReader : public Reader {
 public:
  BatchReader(const RecordAccess& access, const RecordLayout& layout,
              std::vector<std::size_t> fields, const ReaderOptions& options,
              std::shared_ptr<BufferPool> pool)
      : Reader(access, options, std::move(pool)),
        plan_(std::make_shared<const GatherPlan>(shards_, layout, std::move(fields), pool_)) {}

  py::list next_fields() {
    const std::unique_ptr<Batch> batch = next();
    return to_fields(static_cast<const ArrayBatch&>(*batch));
  }

 private:
  std::unique_ptr<Batch> make_batch(std::vector<std::int64_t> rows) override {
    return make_array_batch(plan_, std::move(rows));
  }

  std::shared_ptr<const GatherPlan> plan_;
};

// The records of a batch, one after the other; who touches the next ones is told where it is.
class RecordViews {
 public:
  RecordViews(py::list views, std::shared_ptr<TouchAhead> touch_ahead, std::uint64_t place)
      : views_(std::move(views)), touch_ahead_(std::move(touch_ahead)), place_(place) {}

  py::object next() {
    if (taken_ == views_.size()) throw py::stop_iteration();
    py::object view = views_[taken_++];
    if (touch_ahead_) {
      touch_ahead_->at(place_);
      place_ += static_cast<std::uint64_t>(PyMemoryView_GET_BUFFER(view.ptr())->len);
    }
    return view;
  }

  std::size_t remaining() const { return views_.size() - taken_; }

 private:
  py::list views_;
  std::size_t taken_ = 0;
  std::shared_ptr<TouchAhead> touch_ahead_;  // or null
  std::uint64_t place_;                      // of the next record
};

class RawReader : public Reader {
 public:
  // With `touch_ahead` one of the threads touches what is in the maps, and the others read.
  RawReader(const RecordAccess& access, ReaderOptions options, bool touch_ahead)
      // Decompressed records were just written: the caches hold what there is room for.
      : RawReader(access, options,
                  touch_ahead && !access.shards()->has_compressed()
                      ? std::make_shared<TouchAhead>(access.shards())
                      : nullptr) {}

  RecordViews next_records() {
    const std::unique_ptr<Batch> batch = next();
    const auto& records = static_cast<const RecordBatch&>(*batch);
    py::list views;
    for (const RawRecords& slice : records.slices()) append_views(shards_, slice, views);
    const std::optional<std::uint64_t> place = std::exchange(next_place_, std::nullopt);
    if (touch_ahead_) {
      // A batch that has to be waited for is not touched: it would cost those who read.
      reader().peek(
          [this](const Batch& next) { next_place_ = add(static_cast<const RecordBatch&>(next)); });
    }
    return {std::move(views), place ? touch_ahead_ : nullptr, place.value_or(0)};
  }

 private:
  RawReader(const RecordAccess& access, ReaderOptions options,
            std::shared_ptr<TouchAhead> touch_ahead)
      : Reader(access, without_toucher(options, touch_ahead != nullptr)),
        touch_ahead_(std::move(touch_ahead)) {}

  static ReaderOptions without_toucher(ReaderOptions options, bool has_toucher) {
    if (has_toucher && options.threads > 1) --options.threads;
    return options;
  }

  std::unique_ptr<Batch> make_batch(std::vector<std::int64_t> rows) override {
    return std::make_unique<RecordBatch>(*shards_, pool_, std::move(rows));
  }

  std::uint64_t add(const RecordBatch& batch) {
    std::vector<std::span<const std::byte>> records;
    for (const RawRecords& slice : batch.slices()) {
      records.insert(records.end(), slice.bytes.begin(), slice.bytes.end());
    }
    return touch_ahead_->add(records);
  }

  std::shared_ptr<TouchAhead> touch_ahead_;  // or null
  std::optional<std::uint64_t> next_place_;  // of the batch to come, if it was added
};

// Gathers batches on the calling thread, one at a time, into memory that the caller provides.
class BatchGatherer {
 public:
  BatchGatherer(const RecordAccess& access, const RecordLayout& layout,
                std::vector<std::size_t> fields)
      : shards_(access.shards()), reader_(shards_), layout_(layout), fields_(std::move(fields)) {}

  py::list gather(const Rows& rows, const py::function& allocate) {
    auto plan = std::make_shared<GatherPlan>(shards_, layout_, fields_, pool_);
    plan->take_block = [&](std::size_t bytes) {
      const py::gil_scoped_acquire acquired;
      return writable_memory(allocate(bytes), bytes);
    };
    const auto batch = make_array_batch(std::move(plan), to_rows(rows, *shards_));
    const std::unique_lock turn(is_gathering_, std::try_to_lock);
    if (!turn) throw std::logic_error("the gatherer is in a call of another thread; make one each");
    ensure_map_guard();
    {
      const py::gil_scoped_release released;
      run_batch(*batch, reader_);
    }
    return to_fields(*batch);
  }

 private:
  // The memory of a Python buffer, held as long as it is used.
  static std::shared_ptr<std::byte> writable_memory(const py::buffer& buffer, std::size_t bytes) {
    auto info = std::make_unique<py::buffer_info>(buffer.request(true));
    const auto given = static_cast<std::size_t>(info->size * info->itemsize);
    if (given < bytes) {
      throw std::invalid_argument("allocate(" + std::to_string(bytes) + ") gave " +
                                  std::to_string(given) + " bytes");
    }
    auto* data = static_cast<std::byte*>(info->ptr);
    return {data, [held = info.release()](std::byte*) {
              const py::gil_scoped_acquire acquired;
              delete held;
            }};
  }

  std::shared_ptr<const ShardSet> shards_;
  std::shared_ptr<BufferPool> pool_ = BufferPool::create(0);
  std::mutex is_gathering_;
  RecordReader reader_;
  RecordLayout layout_;
  std::vector<std::size_t> fields_;
};

py::dict to_dict(const ReaderStats& stats) {
  py::dict dict;
  dict["batches"] = stats.batches;
  dict["records"] = stats.records;
  dict["bytes"] = stats.bytes;
  dict["wait_ns"] = stats.wait_ns;
  dict["read_ns"] = stats.read_ns;
  dict["finished_ns"] = stats.finished_ns;
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

  py::class_<BufferPool, std::shared_ptr<BufferPool>>(module, "BufferPool")
      .def(py::init(&BufferPool::create), py::arg("max_free_bytes"));

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
                       std::uint64_t max_bytes, std::shared_ptr<BufferPool> pool) {
             return std::make_unique<BatchReader>(shards, layout, std::move(fields),
                                                  ReaderOptions{threads, max_batches, max_bytes},
                                                  std::move(pool));
           }),
           py::arg("shards"), py::arg("layout"), py::arg("fields"), py::kw_only(),
           py::arg("threads"), py::arg("max_batches"), py::arg("max_bytes"),
           py::arg("pool") = py::none())
      .def("next", &BatchReader::next_fields);

  py::class_<BatchGatherer>(module, "BatchGatherer")
      .def(py::init<const RecordAccess&, const RecordLayout&, std::vector<std::size_t>>(),
           py::arg("shards"), py::arg("layout"), py::arg("fields"))
      .def("gather", &BatchGatherer::gather, py::arg("rows").noconvert(), py::arg("allocate"));

  py::class_<RecordViews>(module, "RecordViews")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &RecordViews::next)
      .def("__length_hint__", &RecordViews::remaining);

  py::class_<RawReader, Reader>(module, "RawReader")
      .def(py::init([](const RecordAccess& shards, int threads, std::size_t max_batches,
                       std::uint64_t max_bytes, bool touch_ahead) {
             return std::make_unique<RawReader>(
                 shards, ReaderOptions{threads, max_batches, max_bytes}, touch_ahead);
           }),
           py::arg("shards"), py::kw_only(), py::arg("threads"), py::arg("max_batches"),
           py::arg("max_bytes"), py::arg("touch_ahead") = false)
      .def("next", &RawReader::next_records);
}

}  // namespace dsrt::bindings
