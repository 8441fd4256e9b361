// Table of contents, by reader. The build fails for a page of docs/ without a section, and for an entry without a file.

/** Sections with their pages in reading order. Unlisted pages of the folders follow. */
export const SECTIONS = [
  {
    title: 'Start',
    folders: ['docs/start'],
    pages: [
      'README.md',
      'docs/start/typescript-from-zero.md',
      'docs/start/getting-started.md',
      'docs/start/learn-the-outcome.md',
      'docs/start/faq.md',
      'docs/glossary.md',
      'examples/README.md',
      'docs/README.md',
      'docs/comparison.md',
    ],
  },
  {
    title: 'Concepts',
    folders: ['docs/concepts'],
    pages: [
      'docs/concepts/outbox.md',
      'docs/concepts/unknown-outcomes.md',
      'docs/concepts/messages.md',
      'docs/concepts/inbox.md',
      'docs/concepts/scheduler.md',
      'docs/concepts/leases.md',
      'docs/concepts/many-databases.md',
    ],
  },
  {
    title: 'Guides',
    folders: ['docs/coding', 'docs/migrate'],
    pages: [
      'docs/coding/writing-a-rail.md',
      'docs/coding/http-rail.md',
      'docs/coding/brokers.md',
      'docs/coding/transactions.md',
      'docs/coding/other-languages.md',
      'docs/coding/webhooks.md',
      'docs/coding/testing.md',
      'docs/migrate/from-graphile-worker.md',
      'docs/migrate/from-pg-boss.md',
    ],
  },
  {
    title: 'Operate',
    folders: ['docs/operate'],
    pages: [
      'docs/operate/least-privilege.md',
      'docs/operate/deploy.md',
      'docs/operate/containers.md',
      'docs/operate/cluster.md',
      'docs/operate/pgbouncer.md',
      'docs/operate/shards.md',
      'docs/operate/capacity.md',
      'docs/operate/access.md',
      'docs/operate/limits.md',
      'docs/operate/dashboard.md',
      'docs/operate/stop-cancel-return.md',
      'docs/operate/reconcile.md',
      'docs/operate/tracing.md',
      'docs/operate/troubleshooting.md',
      'docs/operate/restore.md',
      'docs/operate/dump.md',
      'docs/operate/upgrade.md',
      'docs/operate/uninstall.md',
      'docs/operate/auditor.md',
      'docs/operate/ledger.md',
      'docs/operate/evidence.md',
      'docs/operate/data-protection.md',
    ],
  },
  {
    title: 'Reference',
    // `docs` contains the generated pages: benchmarks, reliability, conformance.
    folders: ['docs/reference', 'docs/reference/api', 'docs'],
    pages: [
      'docs/reference/package.md',
      'docs/reference/cli.md',
      'docs/reference/options.md',
      'docs/reference/rail.md',
      'docs/reference/http.md',
      'docs/reference/events.md',
      'docs/reference/metrics.md',
      'docs/reference/alerts.md',
      'docs/reference/errors.md',
      'docs/reference/screenshots.md',
      'docs/conformance.md',
      'docs/reliability.md',
      'CHANGELOG.md',
    ],
  },
  {
    title: 'Internals',
    folders: ['docs/internals', 'docs/internals/decisions'],
    pages: [
      'docs/internals/README.md',
      'docs/internals/life-of-a-payment.md',
      'scripts/guardrails/modules.md',
      'docs/internals/schema.md',
      'docs/internals/ledger-chain.md',
      'docs/internals/tests.md',
      'docs/internals/scorecard.md',
      'docs/internals/fuzz.md',
      'docs/internals/mutants.md',
      'docs/internals/performance.md',
      'docs/internals/billion-rows.md',
      'docs/decisions.md',
      'docs/internals/decisions/public-api.md',
      'docs/internals/decisions/outbox.md',
      'docs/internals/decisions/rails.md',
      'docs/internals/decisions/operators.md',
      'docs/internals/decisions/ledger.md',
      'docs/internals/decisions/reconciliation.md',
      'docs/internals/decisions/primitives.md',
      'docs/internals/decisions/database.md',
      'docs/internals/decisions/observability.md',
      'docs/internals/decisions/tests.md',
      'docs/internals/releases.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'CODE_OF_CONDUCT.md',
    ],
  },
]

/** Returns the address of a page in the site. docs/ is the root, and README.md the first page. */
export function addressOf(file) {
  if (file === 'README.md') return 'index.html'
  if (file === 'docs/README.md') return 'contents.html'
  const path = file.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
  return path.replace(/\.md$/, '.html').toLowerCase()
}

/** Returns the address of an image in the site. */
export function imageAddress(file) {
  return file.replace(/^docs\//, '')
}
