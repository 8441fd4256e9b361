/**
 * Times as text, for those who show them: a Date has milliseconds, the server microseconds, and a page that sorts by what it
 * shows must not lose them.
 */
export function isoMicros(expression: string): string {
  return `to_char(${expression} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** Microseconds since 1970 as text: what a cursor holds of a time. */
export function epochMicros(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000000)::bigint::text`
}

/** The time that `epochMicros` gave; to the microsecond, because a double holds so many exactly until the year 2255. */
export function fromEpochMicros(parameter: string): string {
  return `('epoch'::timestamptz + ${parameter}::bigint * interval '1 microsecond')`
}

/** The smallest UUID version 7 of that moment: rows keyed by such ids are found by time without an index on a time. */
export function firstUuidAt(time: string): string {
  return `(lpad(to_hex((extract(epoch FROM ${time}) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`
}
