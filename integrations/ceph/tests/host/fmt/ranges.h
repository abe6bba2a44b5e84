// Names of the library fmt in Ceph's own headers; no text is printed with it here.
#pragma once
#include <string>
#include <type_traits>

namespace fmt {
template <typename> concept formattable = false;
template <typename, typename> struct is_range;
template <typename... Arguments> std::string format(const Arguments &...);
} // namespace fmt
