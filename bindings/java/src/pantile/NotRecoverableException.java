package pantile;

import java.io.IOException;

/** Too much is lost: the code cannot recover the wanted shards. */
public final class NotRecoverableException extends IOException {
  private static final long serialVersionUID = 1;

  NotRecoverableException(String why) {
    super(why);
  }
}
