// SHA-256 (FIPS 180-4), for the seeds: mha_core/inputs.py derives each stream's seed from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace mha {

std::array<uint8_t, 32> sha256(const std::string& text);

}  // namespace mha
