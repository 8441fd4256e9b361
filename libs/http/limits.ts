import { boundedInteger } from '../core/index.js'

export interface HttpLimits {
  /**
   * Requests per second of one key, token or person, with bursts of twice this number. Each further 16 KiB of a body
   * counts as another request. @default 500
   */
  readonly requestsPerSecond?: number
  /** Maximum number of open streams of all clients. @default 100 */
  readonly streamsMax?: number
  /** Maximum size in MiB of an uploaded bank statement. @default 256 */
  readonly statementMibMax?: number
}

export function resolveHttpLimits(given: HttpLimits = {}): Required<HttpLimits> {
  const limits = { requestsPerSecond: 500, streamsMax: 100, statementMibMax: 256, ...given }
  boundedInteger('requestsPerSecond', limits.requestsPerSecond, { min: 1, max: 1_000_000 })
  boundedInteger('streamsMax', limits.streamsMax, { min: 0, max: 100_000 })
  boundedInteger('statementMibMax', limits.statementMibMax, { min: 1, max: 4_096 })
  return limits
}

/** Body size that counts as one request. A longer body counts as several, because parsing it costs more. */
export const REQUEST_BYTES = 16_384

/** Time within which a body other than an uploaded file must arrive. The server disconnects slower clients. */
export const REQUEST_TIMEOUT_MS = 30_000
/** Time within which an uploaded file must arrive. */
export const UPLOAD_TIMEOUT_MS = 900_000
export const HEADERS_TIMEOUT_MS = 10_000
/**
 * Interval at which the server looks for slow clients. Node's default of 30 s would keep slow clients longer and
 * disconnect many at once.
 */
export const SLOW_CLIENTS_CHECK_MS = 1_000
/** Maximum size of all headers together. Node refuses more with 431. */
export const HEADER_BYTES_MAX = 16_384
