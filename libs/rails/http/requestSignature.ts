import { createHmac } from 'node:crypto'

export interface SigningKey {
  /** Id of the secret, so that the rail can accept several secrets while they are rotated. */
  readonly keyId: string
  readonly secret: string | Uint8Array
}

export interface SignedParts {
  readonly timestampSeconds: number
  readonly method: string
  /** Path with its query, as sent. */
  readonly path: string
  readonly reference: string
  readonly notAfter: string
  /** Body exactly as sent; empty for an inquiry. */
  readonly body: string
}

/**
 * Returns the value of the header `Symphony-Signature`: `t=1767225600,k=KEYID,v1=HEX`. HEX is the HMAC-SHA256 over six
 * lines joined by line feeds: timestamp, method, path, Idempotency-Key, Symphony-Not-After and body.
 *
 * The signature covers the Idempotency-Key, because an attacker could otherwise replace the key of a captured request
 * and have it paid a second time. No part but the body can contain a line feed, so no two requests sign the same text.
 */
export function signRequest({ keyId, secret }: SigningKey, parts: SignedParts): string {
  const text = [parts.timestampSeconds, parts.method, parts.path, parts.reference, parts.notAfter, parts.body].join(
    '\n',
  )
  return `t=${parts.timestampSeconds},k=${keyId},v1=${createHmac('sha256', secret).update(text).digest('hex')}`
}
