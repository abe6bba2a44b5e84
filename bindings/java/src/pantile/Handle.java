package pantile;

import java.lang.ref.Cleaner;
import java.util.concurrent.locks.StampedLock;
import java.util.function.LongConsumer;

/** Native memory that any number of threads use, and that is freed once and after the last call. */
final class Handle implements Runnable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final StampedLock lock = new StampedLock();
  private final String name;
  private final LongConsumer free;
  private long pointer;

  Handle(String name, long pointer, LongConsumer free) {
    this.name = name;
    this.pointer = pointer;
    this.free = free;
  }

  /** Returns the way to free it: at the call, or once the owner is unreachable. */
  Cleaner.Cleanable ownedBy(Object owner) {
    return CLEANER.register(owner, this);
  }

  /** Keeps the memory until {@link #leave}; refuses if it is freed. */
  long enter() {
    long stamp = lock.readLock();
    if (pointer == 0) {
      lock.unlockRead(stamp);
      throw new IllegalStateException("the " + name + " is closed");
    }
    return stamp;
  }

  void leave(long stamp) {
    lock.unlockRead(stamp);
  }

  /** Returns the address, between {@link #enter} and {@link #leave}. */
  long get() {
    return pointer;
  }

  @Override
  public void run() {
    long stamp = lock.writeLock();
    try {
      free.accept(pointer);
      pointer = 0;
    } finally {
      lock.unlockWrite(stamp);
    }
  }
}
