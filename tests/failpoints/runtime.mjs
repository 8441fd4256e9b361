// Loaded before an instrumented build (see instrument.ts). `FAILPOINT="<name> before"` kills the process at that point.
// `FAILPOINT_LOG=<file>` records each point when it is first reached.
import { appendFileSync } from 'node:fs'

const { FAILPOINT, FAILPOINT_LOG } = process.env
const passed = new Set()

function pass(point) {
  if (FAILPOINT_LOG !== undefined && !passed.has(point)) {
    passed.add(point)
    appendFileSync(FAILPOINT_LOG, `${point}\n`)
  }
  if (point === FAILPOINT) process.kill(process.pid, 'SIGKILL')
}

globalThis.failpoint = {
  before: (name) => pass(`${name} before`),
  after: (name, value) => {
    pass(`${name} after`)
    return value
  },
}
