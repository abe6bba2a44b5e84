package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import pantile.hdfs.RaidpCode;

/** An add-on's coefficients are those of `raidp:N,weighted` as the judge writes them down. */
class TheCodeIsTheOneOfTheVectorsTest {
  @Test
  void everyCoefficientOfEveryWeightedVector() throws Exception {
    JsonNode codes =
        new ObjectMapper().readTree(new File("../../vectors/codes/raidp.json")).get("codes");
    int seen = 0;
    for (JsonNode vector : codes) {
      String spec = vector.get("spec").asText();
      if (!spec.endsWith(",weighted")) {
        continue;
      }
      int disks = Integer.parseInt(spec.substring(6, spec.indexOf(',')));
      RaidpCode code = RaidpCode.of(disks);
      assertEquals(spec, code.spec);
      Map<String, Integer> partners = new HashMap<>();
      for (JsonNode equation : vector.get("equations")) {
        if (equation.size() == 2) {
          for (int i = 0; i < 2; i++) {
            JsonNode cell = equation.get(i);
            int other = equation.get(1 - i).get(1).asInt();
            partners.put(cell.get(0) + "," + cell.get(1), other);
          }
        }
      }
      for (JsonNode equation : vector.get("equations")) {
        for (JsonNode cell : equation) {
          int disk = cell.get(1).asInt();
          if (equation.size() > 2 && disk < disks) {
            int partner = partners.get(cell.get(0) + "," + cell.get(1));
            ByteBuffer sum = ByteBuffer.allocateDirect(1);
            ByteBuffer one = ByteBuffer.allocateDirect(1);
            one.put(0, (byte) 1);
            code.fold(disk, partner, sum, one);
            assertEquals(cell.get(2).asInt(), sum.get(0) & 0xff, spec + " " + cell);
            assertEquals(cell.get(2).asInt(), code.weight(disk, partner), spec + " " + cell);
            seen++;
          }
        }
      }
    }
    assertTrue(seen > 20, "only " + seen);
  }

  @Test
  void whatIsNoDiskOfTheCodeIsRefused() {
    assertThrows(IllegalArgumentException.class, () -> RaidpCode.of(2));
    assertThrows(IllegalArgumentException.class, () -> RaidpCode.of(65));
    RaidpCode code = RaidpCode.of(64);
    ByteBuffer bytes = ByteBuffer.allocateDirect(8);
    ByteBuffer more = ByteBuffer.allocateDirect(9);
    assertThrows(IllegalArgumentException.class, () -> code.fold(3, 3, bytes, bytes));
    assertThrows(IllegalArgumentException.class, () -> code.fold(0, 64, bytes, bytes));
    assertThrows(IllegalArgumentException.class, () -> code.fold(0, 1, bytes, more));
    assertThrows(IllegalArgumentException.class, () -> code.fold(0, 1, bytes, ByteBuffer.allocate(8)));
    code.fold(63, 0, bytes, ByteBuffer.allocateDirect(8));
  }

  @Test
  void aStorageNameSaysArrayDiskAndPartner() {
    StorageName name = StorageName.of("warm", 3, 12);
    StorageName read = StorageName.parse(name.toString());
    assertEquals(name, read);
    assertEquals(3, read.disk);
    assertEquals(12, read.partner);
    assertEquals(StorageName.of("warm", 12, 3), read.mirror());
    assertTrue(org.apache.hadoop.hdfs.server.protocol.DatanodeStorage.isValidStorageId("" + name));
    for (String other :
        new String[] {null, "", "DS-x", "DS-f81d4fae-7dec-41d0-a765-00a0c91e6bf6"}) {
      assertEquals(null, StorageName.parse(other));
    }
    assertTrue(StorageName.of("cold", 3, 12).array != name.array);
  }
}
