// Enqueue.java: java -cp /usr/share/java/postgresql.jar Enqueue.java ORDER-1 12.50
import java.sql.*;

class Enqueue {
  public static void main(String[] args) throws Exception {
    String order = args[0], amount = args[1];
    String payload = "{\"amount\": \"%s\", \"currency\": \"EUR\", \"destination\": \"DE89370400440532013000\"}";
    try (Connection db = DriverManager.getConnection(System.getenv("JDBC_URL"))) {
      db.setAutoCommit(false); // without a commit, close() rolls back
      PreparedStatement insert = db.prepareStatement(
          "INSERT INTO orders VALUES (?, ?::numeric) ON CONFLICT DO NOTHING");
      insert.setString(1, order);
      insert.setString(2, amount);
      insert.execute();
      PreparedStatement enqueue = db.prepareStatement(
          "SELECT outbox_id, created FROM symphony.enqueue_payment_outbox(?, 'shop', ?, 'SEPA', ?::jsonb)");
      enqueue.setString(1, order);
      enqueue.setString(2, order + "/1");
      enqueue.setString(3, payload.formatted(amount)); // use a JSON library where a text may hold a quote
      ResultSet item = enqueue.executeQuery();
      item.next();
      db.commit();
      System.out.println((item.getBoolean("created") ? "new " : "known ") + item.getString("outbox_id"));
    } catch (SQLException error) {
      System.err.println(error.getSQLState() + " " + error.getMessage());
      System.exit(1);
    }
  }
}
