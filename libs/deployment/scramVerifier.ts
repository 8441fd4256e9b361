import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'

/** PostgreSQL's own default. More would be paid at every login. */
const ITERATIONS = 4096
const SALT_BYTES = 16

/**
 * What PostgreSQL stores for a password. Sent in its place, so that a server which logs statements, or keeps them in
 * its statistics, never sees the password itself. For printable ASCII only: anything else would have to be normalised
 * first (RFC 4013).
 */
export function scramVerifier(
  password: string,
  salt: Buffer = randomBytes(SALT_BYTES),
  iterations = ITERATIONS,
): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256')
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64')
  const serverKey = hmac(salted, 'Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
