// Stands for the plug-in isa of a Ceph that is not installed: our plug-in recognizes the host's
// interface by the slots of this one. Compiled with that Ceph's own header; RULE_OF_ZONES are the
// arguments of its second create_rule.
#include "erasure-code/ErasureCodeInterface.h"

using ceph::bufferlist;

class ErasureCodeIsaDefault : public ceph::ErasureCodeInterface {
public:
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const override;
#ifdef RULE_OF_ZONES
    int create_rule(RULE_OF_ZONES) const override;
#endif
    unsigned get_chunk_count() const override;
    int decode_concat(const std::set<int> &wanted, const std::map<int, bufferlist> &chunks, bufferlist *decoded) override;
    int decode_concat(const std::map<int, bufferlist> &chunks, bufferlist *decoded) override;
};

int ErasureCodeIsaDefault::create_rule(const std::string &, CrushWrapper &, std::ostream *) const { return -1; }
#ifdef RULE_OF_ZONES
int ErasureCodeIsaDefault::create_rule(RULE_OF_ZONES) const { return -1; }
#endif
unsigned ErasureCodeIsaDefault::get_chunk_count() const { return 0; }
int ErasureCodeIsaDefault::decode_concat(const std::set<int> &, const std::map<int, bufferlist> &, bufferlist *) { return -1; }
int ErasureCodeIsaDefault::decode_concat(const std::map<int, bufferlist> &, bufferlist *) { return -1; }
