import { randomBytes } from 'node:crypto'
import { scramVerifier } from '../../libs/deployment/logins.js'

/**
 * Returns a password hash with 1 iteration instead of 4,096. Every login repeats the iterations in the client, and a
 * test run logs in tens of thousands of times. The server lives only minutes, so guessing is no risk.
 */
export function quickPassword(password: string): string {
  return scramVerifier(password, randomBytes(16), 1)
}
