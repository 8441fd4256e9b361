import { boundedInteger } from '../core/index.js'

/** What one server bears. */
export interface HttpLimits {
  /** Requests per second of one key, token or person; twice as many at once. @default 500 */
  readonly requestsPerSecond?: number
  /** Open streams, of all clients together. @default 100 */
  readonly streamsMax?: number
}

export function resolveHttpLimits(given: HttpLimits = {}): Required<HttpLimits> {
  const limits = { requestsPerSecond: 500, streamsMax: 100, ...given }
  boundedInteger('requestsPerSecond', limits.requestsPerSecond, { min: 1, max: 1_000_000 })
  boundedInteger('streamsMax', limits.streamsMax, { min: 0, max: 100_000 })
  return limits
}

/** How long a request may take to arrive: a client that sends a byte now and then is not waited for. */
export const REQUEST_TIMEOUT_MS = 30_000
export const HEADERS_TIMEOUT_MS = 10_000
/** Of all headers together; Node refuses more with 431. */
export const HEADER_BYTES_MAX = 16_384
