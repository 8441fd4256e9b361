import { pino, type Logger } from 'pino'
import type { Settings } from './settings.js'

/** JSON lines on stderr: stdout belongs to results. Written at once, so that a crash loses none. */
export function createLog(level: Settings['logLevel'], name: string): Logger {
  return pino({ level, base: { name, pid: process.pid } }, pino.destination({ dest: 2, sync: true }))
}
