// What Ceph's own headers name of the library fmt: nothing is printed by it here.
#pragma once
#include <string>
#include <type_traits>

namespace fmt {
template <typename> concept formattable = false;
template <typename, typename> struct is_range;
template <typename... Arguments> std::string format(const Arguments &...);
} // namespace fmt
