// The guides that are walked from their first line to their last.

export const GUIDES = [
  'docs/start/getting-started.md',
  'docs/coding/writing-a-rail.md',
  'docs/operate/least-privilege.md',
  'docs/operate/auditor.md',
  'docs/operate/upgrade.md',
  'docs/operate/uninstall.md',
]

/** These move jobs of other queues, and need them. */
export const PEER_GUIDES = ['docs/migrate/from-graphile-worker.md', 'docs/migrate/from-pg-boss.md']
