// Steps for every read. A process killed during a read must leave nothing behind.
import { randomUUID } from 'node:crypto'

const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export function readingSteps(tools) {
  const { outbox, ledger, scheduler, inbox, lease, as, buildPayment } = tools
  const look = () => as('readonly')

  return {
    'reads of payments': async () => {
      const payment = buildPayment()
      const { outboxId } = await outbox.enqueuePaymentOutbox(as('ingest'), payment)
      await outbox.readItems(look(), { outboxId })
      await outbox.readItemViews(look(), [outboxId])
      await outbox.readInstructionIds(look(), payment.instructionId, null)
      await outbox.readTopicsAmong(look(), [payment.railType])
      await outbox.readAttemptViews(look(), [outboxId])
      await outbox.readAttempts(as('auditor'), outboxId)
      await outbox.readItemEvents(as('auditor'), outboxId)
      await outbox.readEventViews(as('auditor'), outboxId)
      await outbox.readParticipantOf(look(), outboxId)
      await outbox.readRedrives(look(), [outboxId])
      await outbox.searchItems(look(), { limit: 10 })
      await outbox.searchItems(look(), { limit: 10, state: 'FAILED' })
      await outbox.searchItems(look(), { limit: 10, participants: [payment.participantId] })
      await outbox.searchParticipant(look(), payment.participantId, { limit: 10 })
      const statement = { participantId: payment.participantId, from: new Date(0), to: new Date('2100-01-01') }
      for await (const lines of outbox.readStatement(look(), statement)) void lines
      await outbox.findItems(look(), payment.instructionId, { limit: 10 })
      await outbox.searchProjected(look(), { sort: 'oldest', railType: 'nothing', limit: 10 })
      await outbox.countProjected(look(), { railType: payment.railType })
      await outbox.narrowProjected(as('auditor'), [outboxId], { currency: 'EUR' })
      await outbox.readHashing(as('auditor'))
      await outbox.readNextDestinations(as('control'))
      await outbox.readReplays(as('auditor'), [outboxId])
      await new outbox.RailWarnings(as('ingest')).find([payment.railType])
      await outbox.readRecentlyChanged(look(), { seconds: 60, limit: 10 })
    },
    'reads of decisions': async () => {
      await outbox.readFailedItems(as('control'), { limit: 10 })
      await outbox.readHeldItems(as('control'), { limit: 10 })
      await outbox.readProposalsOf(as('control'), [randomUUID()])
      await outbox.readProposalPage(as('control'), { status: 'OPEN', before: LAST, limit: 10 })
      await outbox.readProposal(as('control'), randomUUID())
      await outbox.readContradictionPage(as('control'), { reviewed: false, limit: 10 })
      await outbox.readContradiction(as('control'), randomUUID())
    },
    'statistics of the outbox': async () => {
      for (const read of [
        outbox.readOutboxStatus,
        outbox.readDispatchEpoch,
        outbox.readLimits,
        outbox.readPauses,
        outbox.readWorkerReports,
        outbox.readRailQueues,
        outbox.readThroughput,
        outbox.readLatestAttempts,
        outbox.readDatabaseTime,
        outbox.readServerVersion,
      ])
        await read(look())
      await outbox.readRailFields(look(), 'resend')
      await outbox.readWorkerHistory(look(), { railType: 'resend', workerId: null })
      await outbox.readPausesOf(look(), { railType: 'resend', participantId: 'p', ordered: true })
      await outbox.isLimitProposal(look(), randomUUID())
      const range = { from: new Date(0), to: new Date(86_400_000), railType: 'resend' }
      await outbox.readSeries(look(), range)
      await outbox.readRailStatistics(look(), range)
      await outbox.readLatencySeries(look(), range)
      await outbox.purgeLedgerProjection(as('executor'), 86_400, 10)
    },
    'reads of the scheduler': async () => {
      await scheduler.readJob(look(), 'report')
      await scheduler.readJobs(look())
      await scheduler.readTimer(look(), randomUUID())
      await scheduler.readTimers(look(), { state: 'READY', limit: 10 })
      await scheduler.readJobRuns(look(), { limit: 10 })
      await scheduler.readSchedulerStats(look())
      await scheduler.readJobViews(look())
      await scheduler.readJobRunPage(look(), { jobName: 'report', limit: 10 })
      await scheduler.readTimerPage(look(), { state: 'READY', limit: 10 })
    },
    'reads of the inbox': async () => {
      const key = { source: 'bank', messageId: 'message-1' }
      await inbox.readInboxMessages(as('control'), 'done', 10)
      await inbox.readInboxMessage(as('control'), key)
      await inbox.readInboxEvents(as('control'), key)
      await inbox.readInboxStats(look())
      await inbox.readInboxPage(as('control'), { state: 'done', limit: 10 })
    },
    'reads of leases': async () => {
      await lease.readLeases(look(), {})
      await lease.readLeaseStats(look())
      await lease.readLeasePage(look(), { released: false, limit: 10 })
    },
    'hashes of destinations': async () => {
      await outbox.enqueuePaymentOutbox(as('ingest'), buildPayment())
      await ledger.sealLedgerBlock(as('executor'), 10_000)
      await ledger.projectLedgerBlock(as('executor'))
      const hash = new outbox.DestinationHash('a key of at least thirty-two bytes')
      await new outbox.DestinationHasher(as('control'), hash).runOnce()
    },
  }
}
