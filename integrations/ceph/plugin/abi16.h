// The erasure-code interfaces of Ceph 15.2 to 18.2 and of 19.2: only the order of virtual functions
// counts. tests/vtable.py compares the first with the plug-ins of the distribution, and
// tests/slots.cc compares the second with the header of its Ceph.
#pragma once
#include "maker.h"

namespace pantile::abi16 {

// The first slots of both interfaces.
class FirstSlots {
public:
    virtual ~FirstSlots() {}                                                                      // 0, 1
    virtual int init(Profile &profile, std::ostream *why) = 0;                                    // 2
    virtual const Profile &get_profile() const = 0;                                               // 3
    virtual int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const = 0; // 4
    virtual unsigned get_chunk_count() const = 0;                                                 // 5
    virtual unsigned get_data_chunk_count() const = 0;                                            // 6
    virtual unsigned get_coding_chunk_count() const = 0;                                          // 7
    virtual int get_sub_chunk_count() = 0;                                                        // 8
    virtual unsigned get_chunk_size(unsigned object_bytes) const = 0;                             // 9
    virtual int minimum_to_decode(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) = 0; // 10
    virtual int minimum_to_decode_with_cost(const Set &wanted, const std::map<int, int> &there, Set *minimum) = 0; // 11
    virtual int encode(const Set &wanted, const ceph::bufferlist &in, Chunks *encoded) = 0;       // 12
    virtual int encode_chunks(const Set &wanted, Chunks *encoded) = 0;                            // 13
    virtual int decode(const Set &wanted, const Chunks &chunks, Chunks *decoded, int chunk_bytes) = 0; // 14
    virtual int decode_chunks(const Set &wanted, const Chunks &chunks, Chunks *decoded) = 0;      // 15
    virtual const std::vector<int> &get_chunk_mapping() const = 0;                                // 16
};

class ErasureCodeInterface : public FirstSlots {
public:
    virtual int decode_concat(const Chunks &chunks, ceph::bufferlist *decoded) = 0;               // 17
};

using ErasureCodePlugin = pantile::ErasureCodePlugin<ErasureCodeInterface>;

} // namespace pantile::abi16

namespace pantile::abi19 {

class ErasureCodeInterface : public abi16::FirstSlots {
public:
    virtual int decode_concat_of_wanted(const Set &wanted, const Chunks &chunks, ceph::bufferlist *decoded) = 0; // 17
    virtual int decode_concat(const Chunks &chunks, ceph::bufferlist *decoded) = 0;               // 18
};

} // namespace pantile::abi19
