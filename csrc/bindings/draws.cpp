// draws.cpp: dsrt::Draws and its modes for Python.
#include "dsrt/draws.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/register.h"
#include "dsrt/alias_table.h"
#include "dsrt/block_draws.h"
#include "dsrt/mix_draws.h"
#include "dsrt/quota_draws.h"
#include "dsrt/weighted_once_draws.h"

namespace py = pybind11;

namespace dsrt::bindings {

namespace {

template <typename Value>
using Array = py::array_t<Value, py::array::c_style>;

template <typename Value>
std::span<const Value> values_of(const Array<Value>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// The columns of an array [n, 2] of (threshold, alias), or none for None.
std::span<const AliasColumn> columns_of(const std::optional<Array<std::uint64_t>>& table) {
  if (!table) return {};
  if (table->ndim() != 2 || table->shape(1) != 2) {
    throw std::invalid_argument("the alias table has " + std::to_string(table->ndim()) +
                                " axes but must be uint64 [rows, 2]; build the table anew");
  }
  return {reinterpret_cast<const AliasColumn*>(table->data()),
          static_cast<std::size_t>(table->shape(0))};
}

Array<std::uint64_t> make_alias_table(const Array<double>& weights) {
  Array<std::uint64_t> table({weights.size(), py::ssize_t{2}});
  const std::span columns(reinterpret_cast<AliasColumn*>(table.mutable_data()),
                          static_cast<std::size_t>(weights.size()));
  const py::gil_scoped_release released;
  build_alias_table(values_of(weights), columns);
  return table;
}

Array<std::int64_t> make_group_table(const Array<std::int32_t>& codes, std::uint64_t num_groups) {
  Array<std::int64_t> table(static_cast<py::ssize_t>(num_groups) + 1 + codes.size());
  const std::span numbers(table.mutable_data(), static_cast<std::size_t>(table.size()));
  const py::gil_scoped_release released;
  group_rows(values_of(codes), num_groups, numbers);
  return table;
}

std::unique_ptr<QuotaDraws> make_quota_draws(const ClassShares& shares, std::uint64_t seed,
                                             const Array<std::int64_t>& table,
                                             std::size_t num_groups,
                                             const std::vector<std::size_t>& groups,
                                             const std::optional<Array<double>>& weights) {
  const std::span ends = values_of(table).first(num_groups + 1);
  const std::span members = values_of(table).subspan(num_groups + 1);
  std::vector<std::span<const std::int64_t>> classes;
  for (const std::size_t group : groups) {
    const auto begin = static_cast<std::size_t>(ends[group]);
    const auto end = static_cast<std::size_t>(ends[group + 1]);
    if (begin > end || end > members.size()) {
      throw std::invalid_argument("the group table ends group " + std::to_string(group) +
                                  " at row " + std::to_string(end) + " of " +
                                  std::to_string(members.size()) + "; build the table anew");
    }
    classes.push_back(members.subspan(begin, end - begin));
  }
  return std::make_unique<QuotaDraws>(members.size(), shares, seed, std::move(classes),
                                      weights ? values_of(*weights) : std::span<const double>());
}

Array<std::int64_t> draw(const Draws& draws, std::int64_t epoch, std::int64_t pass,
                         std::int64_t start, std::int64_t count) {
  draws.check(epoch, pass, start, count);  // before memory is taken
  Array<std::int64_t> rows(count);
  const std::span<std::int64_t> out(rows.mutable_data(), static_cast<std::size_t>(count));
  const py::gil_scoped_release released;
  draws.draw(epoch, pass, start, out);
  return rows;
}

}  // namespace

void register_draws(py::module_& module) {
  module.def("build_alias_table", &make_alias_table, py::arg("weights").noconvert());
  module.def("build_group_table", &make_group_table, py::arg("codes").noconvert(),
             py::arg("num_groups"));

  py::class_<Draws>(module, "Draws")
      .def_property_readonly("num_rows", &Draws::num_rows)
      .def_property_readonly("epoch_length", &Draws::epoch_length)
      .def("draw", &draw, py::arg("epoch"), py::arg("pass_"), py::arg("start"), py::arg("count"));

  py::class_<SequentialDraws, Draws>(module, "SequentialDraws")
      .def(py::init<std::uint64_t, std::uint64_t>(), py::arg("num_rows"), py::arg("epoch_length"));

  py::class_<ShuffleDraws, Draws>(module, "ShuffleDraws")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t>(), py::arg("num_rows"),
           py::arg("epoch_length"), py::arg("seed"));

  py::class_<WeightedDraws, Draws>(module, "WeightedDraws")
      .def(py::init([](std::uint64_t num_rows, std::uint64_t epoch_length, std::uint64_t seed,
                       const std::optional<Array<std::uint64_t>>& table) {
             return std::make_unique<WeightedDraws>(num_rows, epoch_length, seed,
                                                    columns_of(table));
           }),
           py::keep_alive<1, 5>(), py::arg("num_rows"), py::arg("epoch_length"), py::arg("seed"),
           py::arg("table").noconvert());

  py::class_<WeightedOnceDraws, Draws>(module, "WeightedOnceDraws")
      .def(py::init(
               [](const Array<double>& weights, std::uint64_t epoch_length, std::uint64_t seed) {
                 return std::make_unique<WeightedOnceDraws>(values_of(weights), epoch_length, seed);
               }),
           py::keep_alive<1, 2>(), py::arg("weights").noconvert(), py::arg("epoch_length"),
           py::arg("seed"));

  py::class_<BlockDraws, Draws>(module, "BlockDraws")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>(),
           py::arg("num_rows"), py::arg("epoch_length"), py::arg("seed"), py::arg("block_records"),
           py::arg("window_records"));

  py::class_<ClassShares>(module, "ClassShares")
      .def(py::init([](std::uint64_t global_batch, std::uint64_t num_full_batches,
                       std::vector<std::uint64_t> base, std::vector<std::uint64_t> extra,
                       std::vector<std::uint64_t> tail) {
             return ClassShares{global_batch, num_full_batches, std::move(base), std::move(extra),
                                std::move(tail)};
           }),
           py::kw_only(), py::arg("global_batch"), py::arg("num_full_batches"), py::arg("base"),
           py::arg("extra"), py::arg("tail"))
      .def_readonly("base", &ClassShares::base)
      .def_readonly("extra", &ClassShares::extra)
      .def_readonly("tail", &ClassShares::tail)
      .def("draws_per_epoch", &ClassShares::draws_per_epoch, py::arg("number"));

  py::class_<QuotaDraws, Draws>(module, "QuotaDraws")
      .def(py::init(&make_quota_draws), py::keep_alive<1, 4>(), py::keep_alive<1, 7>(),
           py::arg("shares"), py::arg("seed"), py::arg("table").noconvert(), py::arg("num_groups"),
           py::arg("groups"), py::arg("weights").noconvert());

  module.def("mix_component_seed", &MixDraws::component_seed, py::arg("seed"), py::arg("number"));
  py::class_<MixDraws, Draws>(module, "MixDraws")
      .def(py::init<ClassShares, std::uint64_t, std::vector<const Draws*>>(),
           py::keep_alive<1, 4>(), py::arg("shares"), py::arg("seed"), py::arg("components"));
}

}  // namespace dsrt::bindings
