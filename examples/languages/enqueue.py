# enqueue.py: python3 enqueue.py ORDER-1 12.50
import os
import sys
import psycopg
from psycopg.types.json import Jsonb

order, amount = sys.argv[1:]
payload = {"amount": amount, "currency": "EUR", "destination": "DE89370400440532013000"}
try:
    with psycopg.connect(os.environ["APP_URL"]) as db:  # commits at its end, rolls back after an exception
        db.execute("INSERT INTO orders VALUES (%s, %s) ON CONFLICT DO NOTHING", (order, amount))
        outbox_id, created = db.execute(
            "SELECT outbox_id, created FROM symphony.enqueue_payment_outbox(%s, 'shop', %s, 'SEPA', %s)",
            (order, order + "/1", Jsonb(payload)),
        ).fetchone()
    print("new" if created else "known", outbox_id)
except psycopg.Error as error:
    sys.exit(f"{error.diag.sqlstate} {error.diag.message_primary}")
