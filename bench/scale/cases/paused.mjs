// Claims items that are behind 100,000 older due rows of a paused rail, with and without a list of rails.
import { pauseOutbox } from '../../../dist/libs/outbox/index.js'
import { fillQueue } from '../../fill.mjs'
import { claimCost } from '../claimCost.mjs'

const BATCH = 100

export async function paused({ fixture, sizes, calls, print }) {
  const inFront = sizes([100_000], [1_000]).at(-1)
  return fixture.withDatabase(async (database) => {
    const [filler, executor] = [await database.connect(), await database.connect('symphony_executor')]
    const asks = [{ rails: null }, { rails: ['bank', 'paused'] }]
    await fillQueue(filler, { count: 1_000, prefix: 'clean' })
    const clean = []
    for (const { rails } of asks) clean.push(await claimCost(executor, { batch: BATCH, rails, calls }))
    await pauseOutbox(database.open().as('symphony_control'), 'rail', 'paused', 'bench')
    await fillQueue(filler, { count: inFront, prefix: 'paused', rail: 'paused', olderBy: '1 hour' })
    const crowded = []
    for (const { rails } of asks) crowded.push(await claimCost(executor, { batch: BATCH, rails, calls }))
    const ratios = crowded.map(({ buffers }, n) => buffers / clean[n].buffers)
    print(
      `${clean.map((cost) => cost.buffers).join(' and ')} buffers in a clean queue, ${crowded.map((cost) => cost.buffers).join(' and ')} behind a paused rail`,
    )
    const ratio = Math.max(...ratios)
    return {
      figures: [
        {
          figure: `claim behind ${inFront.toLocaleString('en')} due rows of a paused rail: buffers ÷ those of a clean queue`,
          bound: '≤ 1.2',
          measured: `${ratio.toFixed(2)} (any rail ${ratios[0].toFixed(2)}, both by name ${ratios[1].toFixed(2)})`,
          ok: ratio <= 1.2,
        },
      ],
    }
  })
}
