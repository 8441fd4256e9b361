// Cases in the order of the table.
import { unclaimableRows } from './cases/unclaimableRows.mjs'
import { claim } from './cases/claim.mjs'
import { fleet } from './cases/fleet.mjs'
import { hotParticipant } from './cases/hotParticipant.mjs'
import { ledger } from './cases/ledger.mjs'
import { lists } from './cases/lists.mjs'
import { memory } from './cases/memory.mjs'
import { notify } from './cases/notify.mjs'
import { ordered } from './cases/ordered.mjs'
import { paused } from './cases/paused.mjs'
import { processes } from './cases/processes.mjs'
import { reconcile } from './cases/reconcile.mjs'
import { snapshot } from './cases/snapshot.mjs'
import { status } from './cases/status.mjs'
import { verify } from './cases/verify.mjs'
import { wal } from './cases/wal.mjs'

export const CASES = {
  claim,
  unclaimableRows,
  paused,
  ordered,
  ledger,
  status,
  snapshot,
  notify,
  hotParticipant,
  processes,
  wal,
  fleet,
  verify,
  memory,
  reconcile,
  lists,
}
