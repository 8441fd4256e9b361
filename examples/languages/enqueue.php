<?php // enqueue.php: php enqueue.php ORDER-1 12.50
[, $order, $amount] = $argv;
$payload = ['amount' => $amount, 'currency' => 'EUR', 'destination' => 'DE89370400440532013000'];
try {
    $db = new PDO(getenv('PDO_DSN'), options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
    $db->beginTransaction(); // without a commit, the end of the process rolls back
    $db->prepare('INSERT INTO orders VALUES (?, ?) ON CONFLICT DO NOTHING')->execute([$order, $amount]);
    $enqueue = $db->prepare(
        "SELECT outbox_id, created FROM symphony.enqueue_payment_outbox(?, 'shop', ?, 'SEPA', ?)"
    );
    $enqueue->execute([$order, "$order/1", json_encode($payload, JSON_THROW_ON_ERROR)]);
    ['outbox_id' => $outboxId, 'created' => $created] = $enqueue->fetch(PDO::FETCH_ASSOC);
    $db->commit();
    echo $created ? 'new' : 'known', " $outboxId\n";
} catch (PDOException $error) {
    fwrite(STDERR, "{$error->getCode()} {$error->getMessage()}\n");
    exit(1);
}
