// enqueue.go: go run enqueue.go ORDER-1 12.50
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgconn" // pgx 5: github.com/jackc/pgx/v5/pgconn
	"github.com/jackc/pgx/v4" // pgx 5: github.com/jackc/pgx/v5
)

func enqueue(ctx context.Context, db *pgx.Conn, order, amount string) (outboxID string, created bool, err error) {
	payload := map[string]string{"amount": amount, "currency": "EUR", "destination": "DE89370400440532013000"}
	tx, err := db.Begin(ctx)
	if err != nil {
		return
	}
	defer tx.Rollback(ctx) // does nothing after a commit
	const insert = "INSERT INTO orders VALUES ($1, $2::text::numeric) ON CONFLICT DO NOTHING"
	if _, err = tx.Exec(ctx, insert, order, amount); err != nil {
		return
	}
	const call = "SELECT outbox_id::text, created FROM symphony.enqueue_payment_outbox($1, 'shop', $2, 'SEPA', $3)"
	if err = tx.QueryRow(ctx, call, order, order+"/1", payload).Scan(&outboxID, &created); err == nil {
		err = tx.Commit(ctx)
	}
	return
}

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("APP_URL"))
	if err != nil {
		panic(err)
	}
	outboxID, created, err := enqueue(ctx, db, os.Args[1], os.Args[2])
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		fmt.Fprintln(os.Stderr, refused.Code, refused.Message)
		os.Exit(1)
	}
	if err != nil {
		panic(err)
	}
	fmt.Println(map[bool]string{true: "new", false: "known"}[created], outboxID)
}
