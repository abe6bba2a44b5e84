// Names that Ceph's own headers take from the file of this name.
#pragma once
#include <cassert>
#ifndef ceph_assert
#define ceph_assert(condition) assert(condition)
#endif
