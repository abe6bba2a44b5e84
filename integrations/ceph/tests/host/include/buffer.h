// Where Ceph's own headers look for it.
#pragma once
#include <rados/buffer.h>
