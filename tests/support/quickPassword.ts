import { randomBytes } from 'node:crypto'
import { scramVerifier } from '../../libs/deployment/logins.js'

/**
 * A password as PostgreSQL keeps it, hashed once instead of 4,096 times. Every login repeats them, in the client, and a run of the
 * tests logs in tens of thousands of times; a server that is gone in a few minutes needs no protection against guessing.
 */
export function quickPassword(password: string): string {
  return scramVerifier(password, randomBytes(16), 1)
}
