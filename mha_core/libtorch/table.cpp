#include "table.h"

#include <algorithm>
#include <vector>

#include "steps.h"
#include "words.h"

namespace mha {
namespace {

using Row = std::vector<std::string>;

std::string shape_text(const torch::Tensor& tensor) {
  return tuple_text(tensor.sizes().vec());
}

/// The steps that a step really read: of alternatives the last that ran.
std::vector<std::string> read_by(const StepSpec& spec, const Recorded& recorded) {
  std::vector<std::string> found;
  for (const auto& alternatives : spec.reads) {
    const auto ran = std::find_if(
        alternatives.begin(), alternatives.end(),
        [&recorded](const std::string& id) { return recorded.count(id) != 0; });
    if (ran != alternatives.end()) {
      found.push_back(*ran);
    }
  }
  return found;
}

std::string operands(const StepSpec& spec, const Recorded& recorded) {
  std::string text;
  for (const auto& id : read_by(spec, recorded)) {
    const auto& tensor = recorded.at(id);
    const bool keys = spec.id == "scores" && id == "transpose_k";  // its operand is Kᵀ
    text += (text.empty() ? "" : " × ") + shape_text(keys ? tensor.transpose(-2, -1) : tensor);
  }
  return text;
}

/// "view of split_q", "copy 1.5 KiB" or "new 1.5 KiB".
std::string storage(const StepSpec& spec, const Recorded& recorded) {
  const auto& tensor = recorded.at(spec.id);
  for (const auto& id : read_by(spec, recorded)) {
    if (recorded.at(id).is_alias_of(tensor)) {
      return "view of " + id;
    }
  }
  // Of all steps only merge writes what it allocates by copying alone.
  const std::string word = spec.id == "merge" ? "copy " : "new ";
  return word + human_bytes(static_cast<double>(tensor.nbytes()));
}

size_t width(const std::string& text) {
  // Characters, not bytes: those that go on with a character begin with the bits 10.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

/// Columns to the left, two spaces between, a rule under the titles.
std::string render(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (size_t column = 0; column < rows[0].size(); ++column) {
    size_t widest = width(rows[0][column]) + 2;
    for (const auto& row : rows) {
      widest = std::max(widest, width(row[column]));
    }
    widths.push_back(widest);
  }
  std::string text;
  for (size_t index = 0; index < rows.size(); ++index) {
    std::string line;
    std::string rule;
    for (size_t column = 0; column < widths.size(); ++column) {
      const auto& cell = rows[index][column];
      const std::string between = column == 0 ? "" : "  ";
      line += between + cell + std::string(widths[column] - width(cell), ' ');
      rule += between + std::string(widths[column], '-');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (index == 0 ? "" : "\n") + line;
    if (index == 0) {
      text += "\n" + rule;
    }
  }
  return text;
}

}  // namespace

std::string shape_table(const Recorded& recorded, bool detail) {
  Row titles = {"step", "operation", "input", "output", "input shape", "output shape"};
  if (detail) {
    titles.insert(titles.end(), {"id", "strides", "contiguous", "storage", "bytes"});
  }
  std::vector<Row> rows = {titles};
  for (const auto& spec : steps()) {
    const auto found = recorded.find(spec.id);
    if (found == recorded.end() || !(detail || spec.in_short_table)) {
      continue;
    }
    const auto& tensor = found->second;
    Row row = {
        spec.number, spec.operation, spec.inputs, spec.output, operands(spec, recorded),
        shape_text(tensor)};
    if (detail) {
      row.insert(
          row.end(),
          {spec.id, tuple_text(tensor.strides().vec()), tensor.is_contiguous() ? "True" : "False",
           storage(spec, recorded), std::to_string(tensor.nbytes())});
    }
    rows.push_back(row);
  }
  return render(rows);
}

}  // namespace mha
