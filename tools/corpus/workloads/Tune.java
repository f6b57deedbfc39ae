import java.util.*;
// Keeps maps, records, lists of boxed numbers, and text.
public class Tune {
  record Item(int id, String name, double price, List<Integer> parts) {}
  public static void main(String[] a) throws Exception {
    Random r = new Random(1);
    Map<String, Item> items = new HashMap<>();
    TreeMap<Long, StringBuilder> log = new TreeMap<>();
    LinkedList<Object[]> queue = new LinkedList<>();
    for (int i = 0; i < 250000; i++) {
      List<Integer> parts = new ArrayList<>();
      for (int k = r.nextInt(6); k > 0; k--) parts.add(r.nextInt(100000));
      items.put("item-" + i, new Item(i, "name" + r.nextInt(5000), r.nextDouble() * 100, parts));
      if (i % 3 == 0) log.put(r.nextLong(), new StringBuilder("line " + i + " of the log, by " + r.nextInt(100)));
      queue.add(new Object[] { i, null, parts });
    }
    System.out.println(items.size() + log.size() + queue.size());
    Thread.sleep(1000000);
  }
}
