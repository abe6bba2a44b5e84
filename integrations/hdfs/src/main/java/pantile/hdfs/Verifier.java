package pantile.hdfs;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;

/**
 * Reads every block of erasure-coded files, says which is wrong, and reports it if asked to.
 *
 * <p>It writes no block. A wrong block is reported as corrupt to the NameNode, which then has it
 * rebuilt from others. That is done only with enough evidence, and if the other blocks, read once
 * more without the wrong ones, agree everywhere. These must be more than k, so that a wrong one
 * among them would be noticed.
 */
final class Verifier {
  /** Default bits of evidence, as in all of Pantile: a mistake is rarer than once in 2^40. */
  static final int EVIDENCE_BITS_USUAL = 40;

  private final DistributedFileSystem files;
  private final DFSClient client;
  private final boolean repair;
  private final int evidenceBits;
  private final PrintStream out;

  Verifier(
      DistributedFileSystem files, boolean repair, int evidenceBits, PrintStream out) {
    this.files = files;
    this.client = files.getClient();
    this.repair = repair;
    this.evidenceBits = evidenceBits;
    this.out = out;
  }

  /** Checks a file; returns a status of {@link Tool}. */
  int file(Path path) throws IOException {
    String name = files.makeQualified(path).toUri().getPath();
    HdfsFileStatus status = client.getFileInfo(name);
    if (status == null) {
      throw new IOException("it is gone");
    }
    ErasureCodingPolicy policy = status.getErasureCodingPolicy();
    if (policy == null || policy.isReplicationPolicy()) {
      out.println(name + ": replicated, nothing to add up; left out");
      return Tool.GOOD;
    }
    Family family = Family.of(policy.getCodecName());
    if (family == null) {
      throw new IOException("codec " + policy.getCodecName() + " is none of those that are here");
    }
    Code code = Code.of(family, policy.getNumDataUnits(), policy.getNumParityUnits());
    LocatedBlocks blocks = client.getLocatedBlocks(name, 0, Long.MAX_VALUE);
    if (blocks.isUnderConstruction()) {
      throw new IOException("it is being written; verify it when it is closed");
    }
    List<LocatedBlock> groups = blocks.getLocatedBlocks();
    out.println(
        name + ": " + policy.getName() + ", " + status.getLen() + " bytes in " + groups.size()
            + (groups.size() == 1 ? " block group" : " block groups"));
    int worst = Tool.GOOD;
    for (int number = 0; number < groups.size(); number++) {
      LocatedStripedBlock group = (LocatedStripedBlock) groups.get(number);
      out.println("  group " + number + ", from byte " + group.getStartOffset() + " on:");
      worst = Math.max(worst, group(name, code, policy, group));
    }
    return worst;
  }

  private int group(
      String name, Code code, ErasureCodingPolicy policy, LocatedStripedBlock located) {
    List<Integer> accused = new ArrayList<>();
    boolean wrong = false;
    boolean open = false;
    try (GroupReader group = new GroupReader(files, name, located, policy)) {
      Evidence evidence = Evidence.of(code, group);
      for (int unit = 0; unit < group.units(); unit++) {
        if (group.absent[unit] != null) {
          wrong = true;
          say(group, unit, code, group.absent[unit]);
        }
        if (evidence.bits[unit] >= 0) {
          wrong = true;
          say(group, unit, code, accusation(evidence, unit));
        }
        if (group.checksumFails[unit] || evidence.bits[unit] >= evidenceBits) {
          accused.add(unit);
        }
      }
      open = evidence.open > 0;
      if (open) {
        out.println(
            "    " + evidence.open + " ranges do not add up, the first at byte "
                + evidence.openOffset + " of the blocks, and which block is wrong cannot be told");
      } else if (!wrong) {
        out.println("    all " + group.units() + " blocks agree");
      }
    } catch (IOException why) {
      out.println("    not checked: " + why.getMessage());
      return Tool.FAILED;
    }
    if (repair && (wrong || open)) {
      repair(name, code, policy, located, accused, open);
    }
    return wrong || open ? Tool.WRONG : Tool.GOOD;
  }

  private void say(GroupReader group, int unit, Code code, String what) {
    LocatedBlock block = group.block(unit);
    String where =
        block == null || block.getLocations().length == 0
            ? ""
            : ", " + block.getBlock().getBlockName() + " on " + block.getLocations()[0].getXferAddr();
    String role = unit < code.k ? "data" : "parity";
    out.println("    block " + unit + " (" + role + where + "): " + what);
  }

  private String accusation(Evidence evidence, int unit) {
    int bits = evidence.bits[unit];
    return "WRONG from byte " + evidence.first[unit] + " to " + evidence.last[unit]
        + " of the block; other blocks would have to be wrong together, which looks so once in 2^"
        + bits + (bits < evidenceBits ? " (less than the 2^" + evidenceBits + " asked for)" : "");
  }

  /**
   * Reads the group again without the accused blocks, and reports these as corrupt if the others
   * agree.
   */
  private void repair(
      String name,
      Code code,
      ErasureCodingPolicy policy,
      LocatedStripedBlock located,
      List<Integer> accused,
      boolean open) {
    if (open || accused.isEmpty()) {
      out.println(
          "    nothing is reported: "
              + (open ? "it cannot be told what is wrong" : "no block is accused with enough evidence"));
      return;
    }
    try (GroupReader group = new GroupReader(files, name, located, policy)) {
      for (int unit : accused) {
        group.leaveOut(unit, "accused");
      }
      Evidence others = Evidence.of(code, group);
      if (others.ranges > 0) {
        out.println("    nothing is reported: without the accused, the others do not agree either");
        return;
      }
      int good = 0;
      for (String absent : group.absent) {
        good += absent == null ? 1 : 0;
      }
      LocatedBlock[] wrong = new LocatedBlock[accused.size()];
      for (int i = 0; i < wrong.length; i++) {
        wrong[i] = group.block(accused.get(i));
      }
      client.reportBadBlocks(wrong);
      out.println(
          "    reported to the NameNode as corrupt: block"
              + (accused.size() == 1 ? " " : "s ") + accused + "; the " + good
              + " others agree, and " + code.k + " suffice to rebuild");
    } catch (IOException why) {
      out.println("    nothing is reported: " + why.getMessage());
    }
  }
}
