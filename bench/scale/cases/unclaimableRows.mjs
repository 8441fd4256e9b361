// Claims items behind older rows that cannot be claimed: 100,000 each that are leased, held, blocked and future.
import { fillQueue, WAITING } from '../../fill.mjs'
import { claimCost } from '../claimCost.mjs'

const BATCH = 100

export async function unclaimableRows({ fixture, sizes, calls, print }) {
  const inFront = sizes([100_000], [1_000]).at(-1)
  return fixture.withDatabase(async (database) => {
    const [filler, executor] = [await database.connect(), await database.connect('symphony_executor')]
    await fillQueue(filler, { count: 1_000, prefix: 'clean' })
    const clean = await claimCost(executor, { batch: BATCH, rails: ['bank'], calls })
    for (const kind of ['leased', 'held', 'blocked', 'future'])
      await fillQueue(filler, { count: inFront, prefix: kind, columns: WAITING[kind], olderBy: '1 hour' })
    const crowded = await claimCost(executor, { batch: BATCH, rails: ['bank'], calls })
    const ratio = crowded.buffers / clean.buffers
    print(`${clean.buffers} buffers in a clean queue, ${crowded.buffers} behind ${inFront} of each kind`)
    return {
      figures: [
        {
          figure: `claim behind ${inFront.toLocaleString('en')} leased, held, blocked and future rows each: buffers ÷ those of a clean queue`,
          bound: '≤ 1.2',
          measured: `${ratio.toFixed(2)} (${crowded.buffers} ÷ ${clean.buffers})`,
          ok: ratio <= 1.2,
        },
      ],
    }
  })
}
