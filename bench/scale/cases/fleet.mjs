// A fleet with one failed database: runs `npm run bench:fleet` and reads its last line.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const PROGRAM = fileURLToPath(new URL('../../fleetOneDatabaseDown.mjs', import.meta.url))

/** Pairs per round. One pair is not enough, because single runs differ by more than the bound of 2 %. */
const PAIRS_PER_ROUND = 3

export async function fleet({ sizes, rounds, print }) {
  const messages = sizes([3_000], [50]).at(-1)
  const { stdout } = await promisify(execFile)(process.execPath, [
    PROGRAM,
    String(PAIRS_PER_ROUND * rounds),
    String(messages),
  ])
  const { up, down, ratio } = JSON.parse(stdout.trim().split('\n').at(-1))
  print(`${Math.round(up)} a second with all eight, ${Math.round(down)} with one down`)
  return {
    figures: [
      {
        figure: 'eight databases, one of them dead: what the other seven lose',
        bound: '< 2 %',
        measured: `${(100 * (1 - ratio)).toFixed(1)} % (${Math.round(down)} ÷ ${Math.round(up)} messages a second)`,
        ok: ratio > 0.98,
      },
    ],
  }
}
