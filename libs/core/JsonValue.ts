/** What JSON can say. Amounts are decimal strings: a JavaScript number loses digits past 2^53. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

export interface JsonObject {
  readonly [key: string]: JsonValue
}
