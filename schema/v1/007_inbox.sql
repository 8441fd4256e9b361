-- The inbox: tables, indexes and guards. Its functions are in schema/functions/inbox.
--
--   inbox_messages   one row per message; (source, message_id) is its key, and the row recognises duplicates
--   inbox_events     deliveries of a known key with other content, dead letters, revivals
--
--   seen ──► processing ──► done        final; removed by retention
--     │          │
--     └──────────┴────────► dead ──► seen   by an operator, with a reason
--
-- An enqueued message has a topic and a payload, and workers claim it. A message that was only sighted has no topic and
-- no payload. It serves deduplication only: no worker claims it, and its caller changes the state (mark_inbox_…).
-- Retention removes done messages, and sighted messages that are still in state seen: the next sighting inserts such
-- a row again, in the same state. A crash of a worker leaves a claim, which expires.

-- Tables --------------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS inbox_messages (
  -- Collation C compares keys of other systems byte by byte in every locale.
  source text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  topic text,
  payload jsonb,
  content_hash bytea,
  state text NOT NULL DEFAULT 'seen',
  sightings bigint NOT NULL DEFAULT 1,
  attempt_count integer NOT NULL DEFAULT 0,
  attempts_max integer NOT NULL DEFAULT 20,
  due_at timestamptz,
  first_seen_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  ended_at timestamptz,
  last_error text,
  -- The claim.
  claimed_by text,
  fence uuid,
  claim_expires_at timestamptz,
  claimed_at timestamptz,
  PRIMARY KEY (source, message_id),
  CONSTRAINT inbox_messages_known_state CHECK (state IN ('seen', 'processing', 'done', 'dead')),
  CONSTRAINT inbox_messages_content_all_or_none CHECK (num_nonnulls(topic, payload, due_at) IN (0, 3)),
  CONSTRAINT inbox_messages_content_has_hash CHECK (payload IS NULL OR content_hash IS NOT NULL),
  CONSTRAINT inbox_messages_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT inbox_messages_counts_not_negative CHECK (sightings >= 1 AND attempt_count >= 0 AND attempts_max >= 1),
  CONSTRAINT inbox_messages_claim_all_or_none
    CHECK (num_nonnulls(claimed_by, fence, claim_expires_at, claimed_at) IN (0, 4)),
  CONSTRAINT inbox_messages_work_in_process_is_claimed
    CHECK ((fence IS NOT NULL) = (state = 'processing' AND topic IS NOT NULL)),
  CONSTRAINT inbox_messages_ended_once_ended CHECK ((ended_at IS NOT NULL) = (state IN ('done', 'dead')))
)
-- Each claim and ack updates the row. fillfactor leaves space for the new versions on the same page.
WITH (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 500,
  autovacuum_analyze_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 1
);
COMMENT ON TABLE inbox_messages IS 'Messages that retention has not removed: the queue, and the record of duplicates.';
COMMENT ON COLUMN inbox_messages.topic IS
  'Selects the handler; null for a message known only for deduplication, which is never claimed.';
COMMENT ON COLUMN inbox_messages.content_hash IS
  'SHA-256 of topic and payload of the first sighting that had them, to compare with later sightings.';
COMMENT ON COLUMN inbox_messages.sightings IS 'Number of deliveries of the message, duplicates included.';
COMMENT ON COLUMN inbox_messages.attempt_count IS
  'Number of claims and marks as processing since the message was received or revived. Each counts at once, so that a '
  'crash counts. An abandon with p_costs_attempt false subtracts its claim.';
COMMENT ON COLUMN inbox_messages.attempts_max IS 'Attempt limit of the latest claim.';
COMMENT ON COLUMN inbox_messages.fence IS
  'Random token of the claim, known to its worker only. Ack, abandon and fail need it.';

CREATE TABLE IF NOT EXISTS inbox_events (
  event_id uuid PRIMARY KEY,
  source text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  event_type text NOT NULL,
  actor text NOT NULL,
  content_hash bytea,
  detail jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  CONSTRAINT inbox_events_known_type CHECK (event_type IN ('CONTENT_DIFFERS', 'DIED', 'REVIVED')),
  CONSTRAINT inbox_events_hash_of_what_differs CHECK ((event_type = 'CONTENT_DIFFERS') = (content_hash IS NOT NULL))
);
COMMENT ON TABLE inbox_events IS
  'Deliveries of a known key with other content, dead letters and revivals. Never removed.';
COMMENT ON COLUMN inbox_events.content_hash IS
  'SHA-256 of the refused content. Each content is recorded once.';

-- Indexes -------------------------------------------------------------------------------------------------------------

CREATE INDEX IF NOT EXISTS ix_inbox_claimable ON inbox_messages (due_at, first_seen_at)
  WHERE state = 'seen' AND topic IS NOT NULL;
COMMENT ON INDEX ix_inbox_claimable IS 'Claims of due messages, oldest first, and the next due time.';
CREATE INDEX IF NOT EXISTS ix_inbox_claim_expiry ON inbox_messages (claim_expires_at) WHERE fence IS NOT NULL;
COMMENT ON INDEX ix_inbox_claim_expiry IS 'Claims that take over messages whose claim expired.';
CREATE INDEX IF NOT EXISTS ix_inbox_done ON inbox_messages (ended_at) WHERE state = 'done';
COMMENT ON INDEX ix_inbox_done IS 'Retention: messages that were done before a time.';

-- Retention compares last_seen_at, but the index has first_seen_at, because every sighting would update an index on
-- last_seen_at.
CREATE INDEX IF NOT EXISTS ix_inbox_sighted ON inbox_messages (first_seen_at) WHERE state = 'seen' AND topic IS NULL;
COMMENT ON INDEX ix_inbox_sighted IS 'Retention: messages that were only sighted, by the time of the first sighting.';
CREATE INDEX IF NOT EXISTS ix_inbox_dead ON inbox_messages (ended_at) WHERE state = 'dead';
COMMENT ON INDEX ix_inbox_dead IS 'The list of dead messages, and their number.';
CREATE INDEX IF NOT EXISTS ix_inbox_events_by_message ON inbox_events (source, message_id, created_at);
COMMENT ON INDEX ix_inbox_events_by_message IS 'The events of one message.';
CREATE UNIQUE INDEX IF NOT EXISTS ux_inbox_events_one_per_content ON inbox_events (source, message_id, content_hash)
  WHERE event_type = 'CONTENT_DIFFERS';
COMMENT ON INDEX ux_inbox_events_one_per_content IS
  'Refuses a second event for the same content under one key.';

-- Triggers ------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE TRIGGER inbox_events_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON inbox_events
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_events ENABLE ALWAYS TRIGGER inbox_events_is_append_only;

CREATE OR REPLACE TRIGGER inbox_messages_is_not_truncated
  BEFORE TRUNCATE ON inbox_messages
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_messages ENABLE ALWAYS TRIGGER inbox_messages_is_not_truncated;

-- Guards for every writer: a done message stays done, and DELETE is allowed only for done messages and for sighted
-- messages in state seen.
CREATE OR REPLACE TRIGGER inbox_messages_done_is_final
  BEFORE UPDATE ON inbox_messages
  FOR EACH ROW WHEN (OLD.state = 'done' AND NEW.state <> 'done') EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_messages ENABLE ALWAYS TRIGGER inbox_messages_done_is_final;

CREATE OR REPLACE TRIGGER inbox_messages_unfinished_is_not_removed
  BEFORE DELETE ON inbox_messages
  FOR EACH ROW WHEN (OLD.state <> 'done' AND (OLD.state <> 'seen' OR OLD.topic IS NOT NULL))
  EXECUTE FUNCTION refuse_mutation();
ALTER TABLE inbox_messages ENABLE ALWAYS TRIGGER inbox_messages_unfinished_is_not_removed;
