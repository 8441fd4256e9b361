import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * Whether one of the shown signatures is HMAC-SHA256 of the parts, joined by full stops, under one of the keys. Every key is
 * tried with every signature, each in a time that tells nothing about how much of it fits.
 */
export function isSigned(
  keys: readonly Buffer[],
  parts: readonly [...text: string[], body: Buffer],
  shown: string,
): boolean {
  const signatures = readSignatures(shown)
  let found = false
  for (const key of keys) {
    const hmac = createHmac('sha256', key)
    parts.forEach((part, index) => hmac.update(index === 0 ? '' : '.').update(part))
    const expected = hmac.digest()
    for (const signature of signatures) found = timingSafeEqual(signature, expected) || found
  }
  return found
}

/** `v1,BASE64 v1,BASE64`, `sha256=HEX`, or a bare one: whatever stands around them, each has the length of a SHA-256. */
function readSignatures(shown: string): readonly Buffer[] {
  return [...shown.matchAll(SIGNATURE)].slice(0, SIGNATURES_MAX).flatMap(([, text = '']) => {
    const signature = Buffer.from(text, text.length === HEX_LENGTH ? 'hex' : 'base64')
    return signature.length === SHA256_BYTES ? [signature] : []
  })
}

const SIGNATURE = /(?:^|[\s,=])([0-9a-f]{64}|[a-z0-9+/]{43}=)(?=$|[\s,])/gi
const SIGNATURES_MAX = 10
const HEX_LENGTH = 64
const SHA256_BYTES = 32
