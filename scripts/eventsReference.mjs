// Writes docs/reference/events.md from the sources: the events of workers with their fields, comments and log lines,
// the NOTIFY channels, and the event types of the ledger. Run it after a change of any of these; a test compares the
// page with the sources.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { argv } from 'node:process'
import { fileURLToPath } from 'node:url'
import { ensureBuilt } from './build.mjs'
import { wrapMarkdown } from './wrapMarkdown.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

const WORKERS = [
  { title: 'Relayer', type: 'RelayerEvent', file: 'libs/outbox/events.ts' },
  { title: 'Lease repair', type: 'RepairEvent', file: 'libs/repair/LeaseRepairWorker.ts' },
  {
    title: 'Ledger sealer',
    type: 'SealerEvent',
    file: 'libs/ledger/LedgerSealer.ts',
    during: 'sealing the ledger',
  },
  {
    title: 'Ledger verifier',
    type: 'VerifierEvent',
    file: 'libs/ledger/LedgerVerifier.ts',
  },
  { title: 'Scheduler', type: 'SchedulerEvent', file: 'libs/scheduler/events.ts' },
  { title: 'Inbox worker', type: 'InboxWorkerEvent', file: 'libs/inbox/events.ts' },
  { title: 'Leases', type: 'LeaseEvent', file: 'libs/lease/events.ts' },
  { title: 'Fleet', type: 'PlatformEvent', file: 'libs/platform/events.ts' },
  { title: 'Cleanup', type: 'CleanupEvent', file: 'libs/platform/CleanupWorker.ts' },
]

const CHANNELS = {
  outbox_pending: 'an item was enqueued, or became claimable again (released, resumed, resolved)',
  inbox_ready: 'a message was received',
  scheduler_changed: 'a timer or a job is due within the next minute',
}

const KEPT = {
  LATE_OUTCOME: 'a worker reported an outcome after it had lost its lease',
  TERMINAL_BLOCKED: 'an outcome was reported that contradicts the recorded one: an operator must review it',
  CONTRADICTION_REVIEWED: 'an operator compared a contradiction with the rail',
  HOLD_PLACED: 'the item was held, with the reason; `by_operator` if a person placed the hold',
  NOTE_ADDED: 'an operator added a note, with the assignee from then on',
  HOLD_RESOLVED:
    'the hold was resolved, by two people; RETRY of a known outcome needs one person, unless the hold asks for two',
  DECISION_PROPOSED: 'one person proposed how to resolve a held item',
  DECISION_WITHDRAWN: 'the proposal was withdrawn or refused',
  REDRIVE_PROPOSED: 'one person proposed to redrive a failed payment',
  REDRIVE_CREATED: 'a second person approved the redrive; the event names the new item',
  PAUSED: 'a rail, a participant, a stream or all of dispatch was paused',
  RESUMED: 'the pause was ended',
  RETURN_RECORDED: 'the bank returned a paid payment, in whole or in part',
  LIMIT_PROPOSED: 'one person proposed a limit, a change of a limit or its removal',
  LIMIT_SET: 'a second person approved the limit',
  LIMIT_WITHDRAWN: 'the proposal of a limit was withdrawn or refused',
  DECISION_APPROVED:
    'the first of two people approved a decision that a reconciliation proposed, or a payment that a person entered above a limit that asks for two',
  RECONCILED: 'a statement of the bank was compared with the ledger of a rail',
  FINDING_CLOSED: 'a person closed a finding of a reconciliation, with a reason',
  POLICY_SET: 'the effect of a failure on the participant’s ordered stream was set',
  FULL_TRAIL_SET: 'the owner switched `full_trail` on or off',
  ENQUEUED: 'the item was enqueued',
  LEASE_CLAIMED: 'a worker claimed the item',
  LEASE_RELEASED: 'a worker released the item unused',
  LEASE_RENEWED: 'a worker extended the lease',
  LEASE_EXPIRED_REPAIRED: 'the lease expired, and the item was requeued',
  ATTEMPT_COMPLETED: 'an attempt was recorded in the ledger',
  RESCHEDULED: 'the item was scheduled for another attempt',
  BLOCKED: 'the item waits for an earlier item of its ordered stream, or for the end of a pause',
  UNBLOCKED: 'the earlier item or the pause no longer blocks the item',
  MARKED_UNKNOWN: 'a freeze marked the outcome of the item as unknown',
  DISPATCH_BEGUN: 'a worker wrote the dispatch mark before a call to a rail with `onUnknown: hold`',
}
const FULL_TRAIL_ONLY = new Set(Object.keys(KEPT).slice(Object.keys(KEPT).indexOf('ENQUEUED')))

const INBOX_KEPT = {
  CONTENT_DIFFERS: 'a message with a known source and id had different content; one event per content',
  DIED: 'a message was dead-lettered',
  REVIVED: 'an operator reset its attempts, with a reason',
}

export async function eventsReference() {
  ensureBuilt()
  const { logEvents } = await import('../dist/libs/observability/index.js')
  const sections = WORKERS.map((worker) => workerSection(worker, logEvents))
  return wrapMarkdown(`# Events and log lines

For operators and developers: every event of the database, the API and the workers, with its log line. Generated from the sources by \`node scripts/eventsReference.mjs\`; a test compares them. No event contains a payload or a secret.

## Notifications of the database (NOTIFY)

${items(notifyChannels(), CHANNELS)}

A notification only wakes workers; polling finds the same work later. \`notify_enabled\` of \`symphony_settings\` turns all channels off.

## Server-sent events of the API

\`GET /v1/stream\` ([the stream](http.md#the-stream)):

- \`status\`: a \`Status\`, as \`GET /v1/status\` returns it, after a change, at most about once per second.
- \`items\`: \`{ items: [{ outboxId, instructionId, state }], truncated }\`: changed payments with their current states. \`truncated\` is true if more changed than are listed.

## Ledger events: \`payment_outbox_events\`

Append-only and sealed in blocks, as the rest of the ledger. The timeline of a payment (\`symphony show\`, \`GET /v1/outbox/{outboxId}\`) lists them in order.

${ledgerItems((name) => !FULL_TRAIL_ONLY.has(name))}

Only if \`full_trail\` is on:

${ledgerItems((name) => FULL_TRAIL_ONLY.has(name))}

## Inbox events: \`inbox_events\`

${items(typesOf('schema/v1/007_inbox.sql', 'inbox_events_known_type'), INBOX_KEPT)}

## Events and log lines of the workers

\`symphony.events.on(type, listener)\` calls a listener once per event; \`'*'\` is every type. \`logEvents(log)\` and \`new Metrics({ version }).onEvent\` of \`symphony-pg/server\` are such listeners: the processes of the command line use both.

A log line is JSON on stderr with \`level\`, \`time\`, the fields of the event and its name in \`msg\`. Events of every item have level \`debug\`; a lost race is no error.

${sections.join('\n\n')}
`)
}

function items(found, meanings) {
  requireAll(found, meanings)
  return found.map((name) => `- \`${name}\`: ${meanings[name]}`).join('\n')
}

function ledgerItems(isListed) {
  const found = typesOf('schema/v1/011_payment_outbox.sql', 'payment_outbox_events_known_type')
  requireAll(found, KEPT)
  const listed = found.filter(isListed)
  return listed.map((name) => `- \`${name}\`: ${KEPT[name]}`).join('\n')
}

/** Returns the event types that a CHECK constraint of a schema file allows. */
function typesOf(file, constraint) {
  const [, list = ''] = new RegExp(`${constraint} CHECK \\(event_type IN \\(([^)]*)\\)`).exec(read(file)) ?? []
  return [...list.matchAll(/'(\w+)'/g)].map(([, name]) => name)
}

/** Throws if a name in the sources has no description here, or if a described name is not in the sources. */
function requireAll(found, meanings) {
  const unknown = found.filter((name) => meanings[name] === undefined)
  const gone = Object.keys(meanings).filter((name) => !found.includes(name))
  if (unknown.length + gone.length > 0)
    throw new Error(`scripts/eventsReference.mjs: not described: ${unknown.join(', ')}; gone: ${gone.join(', ')}`)
}

function notifyChannels() {
  const files = readdirSync(join(root, 'schema', 'functions'), { recursive: true, encoding: 'utf8' })
  const sql = files.filter((name) => name.endsWith('.sql')).map((name) => read(`schema/functions/${name}`))
  return [...new Set(sql.flatMap((text) => [...text.matchAll(/^ +NOTIFY (\w+)/gm)].map(([, channel]) => channel)))]
    .toSorted()
    .toReversed()
}

function workerSection({ title, type, file, during }, log) {
  const lines = eventsOf(type, file).map(({ names, fields, comment }) => {
    const parts = [`- ${names.map((name) => `**\`${name}\`**`).join(', ')}. ${comment}`]
    if (fields.length > 0) parts.push(`Fields: ${fields.map((field) => `\`${field}\``).join(', ')}.`)
    const logged = names.map((name) => logLines(log, name, during)).filter((line) => line !== '')
    if (logged.length > 0) parts.push(`Log: ${logged.join(', ')}.`)
    return parts.join(' ')
  })
  return `### ${title}: \`${type}\`\n\n${lines.join('\n')}`
}

/** Returns the members of an event union: names, fields and the comment before each. */
function eventsOf(type, file) {
  const source = read(file)
  const [, union = ''] = new RegExp(`export type ${type} =\\n(.*?)\\n\\n`, 's').exec(source) ?? []
  const members = union.split(/^ {2}(?=\/\*\*)/m).filter((part) => part.trim() !== '')
  return members.map((member) => {
    const [, comment, shape] = /^\/\*\*(.*?)\*\/\n(.*)$/s.exec(member) ?? []
    if (comment === undefined) throw new Error(`${file}: an event of ${type} has no comment: ${member}`)
    const [, kinds = ''] = /readonly type: ([^;}\n]*)/.exec(shape) ?? []
    const [, more] = /& (\w+)\)/.exec(shape) ?? []
    const code = shape.replaceAll(/\/\*\*.*?\*\//gs, '')
    return {
      names: [...kinds.matchAll(/'(\w+\.\w+)'/g)].map(([, name]) => name),
      fields: [...fieldsOf(code).filter((field) => field !== 'type'), ...(more ? interfaceFields(more, file) : [])],
      comment: comment.replaceAll(/\s*\n\s*\*\s?/g, ' ').trim(),
    }
  })
}

function fieldsOf(code) {
  return [...code.matchAll(/readonly (\w+)\??:/g)].map(([, field]) => field)
}

function interfaceFields(name, file) {
  const [, base, body = ''] =
    new RegExp(`interface ${name}(?: extends (\\w+))? \\{(.*?)\\n\\}`, 's').exec(read(file)) ?? []
  const inherited = base === undefined ? [] : interfaceFields(base, join(dirname(file), 'types.ts'))
  return [...inherited, ...fieldsOf(body)]
}

/** Returns the log lines of an event type. Logs an event with every field value that changes its line. */
function logLines(log, type, during) {
  const logged = new Set()
  const logger = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((level) => [level, (_fields, name) => logged.add(`\`${name}\` (${level})`)]),
  )
  for (const yes of [true, false]) {
    for (const state of ['open', 'closed', 'half-open']) {
      log(logger)({ type, during, connected: yes, contradicts: yes, state, error: new Error('an error'), lagsMs: [] })
    }
  }
  return [...logged].join(', ')
}

function read(file) {
  return readFileSync(join(root, file), 'utf8')
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(root, 'docs', 'reference', 'events.md'), await eventsReference())
}
