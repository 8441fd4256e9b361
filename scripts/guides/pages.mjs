// Guides that `npm run guides` executes from the first block to the last.

export const GUIDES = [
  'docs/start/getting-started.md',
  'docs/start/learn-the-outcome.md',
  'docs/coding/writing-a-rail.md',
  'docs/operate/least-privilege.md',
  'docs/operate/reconcile.md',
  'docs/operate/auditor.md',
  'docs/operate/upgrade.md',
  'docs/operate/uninstall.md',
]

/** Guides for migrating from other queues. They need the packages of those queues. */
export const PEER_GUIDES = ['docs/migrate/from-graphile-worker.md', 'docs/migrate/from-pg-boss.md']
