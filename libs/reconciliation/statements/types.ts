/** Formats of a bank's statement that Symphony reads. */
export const STATEMENT_FORMATS = ['camt053', 'camt054', 'csv', 'ndjson'] as const
export type StatementFormat = (typeof STATEMENT_FORMATS)[number]

/** One entry of a statement. A batch booking has one entry per transaction. */
export interface StatementEntry {
  /** IBAN or other id of the statement's account. */
  readonly account: string | null
  /** Identifies the entry together with the account. */
  readonly bankReference: string | null
  /** Reference of the payment as the bank shows it, at most 200 characters. Null if the entry has none. */
  readonly reference: string | null
  /** Outbox ids in the reference fields, without repeats, the most reliable field first. */
  readonly candidates: readonly string[]
  /** Decimal text such as `1234.50`. Null if the statement gives only the sum of a batch. */
  readonly amount: string | null
  readonly currency: string | null
  readonly direction: 'debit' | 'credit'
  readonly status: 'booked' | 'pending' | 'information'
  /** The entry takes back an earlier entry of the other direction. */
  readonly reversal: boolean
  /** `YYYY-MM-DD`. */
  readonly bookedOn: string | null
  /** `YYYY-MM-DD`. */
  readonly valuedOn: string | null
  /** Reason of a return, such as AC04. */
  readonly returnCode: string | null
  /** Number of the entry in the file, from 1. */
  readonly position: number
}

export interface StatementSummary {
  readonly statementIds: readonly string[]
  readonly accounts: readonly string[]
  /** Start of the period of all statements, inclusive. Null if the file states none and has no dated entry. */
  readonly from: Date | null
  /** End of the period, exclusive. A date without a time ends with that day in UTC. */
  readonly to: Date | null
}

/** Names of the columns of a CSV file. */
export interface StatementColumns {
  readonly reference: string
  readonly amount: string
  readonly currency: string
  readonly date: string
  /**
   * Column with `debit` or `credit`. If this is the amount's column, the sign decides: a negative amount is a debit.
   * Without it every entry is a debit, and amounts with different signs are refused.
   */
  readonly direction?: string
  /** Column with `booked`, `pending` or `information`. @default booked */
  readonly status?: string
  /** @default the option `account` */
  readonly account?: string
  readonly bankReference?: string
  /** Column with `true` or `false`. @default false */
  readonly reversal?: string
}

export interface ReadStatementOptions {
  readonly format: StatementFormat
  /** Reads only statements of this account. A CSV or NDJSON entry without an account belongs to it. */
  readonly account?: string
  /** Columns of a CSV file, by the names in its first line. */
  readonly columns?: StatementColumns
  /** Decimal mark of a CSV file. @default '.' */
  readonly decimal?: '.' | ','
  /** Dates of a CSV file, such as `DD.MM.YYYY`. @default 'YYYY-MM-DD' */
  readonly dateFormat?: string
  /**
   * Finds our reference in free text. Its first group, else its whole match, must be an outbox id.
   * @default any outbox id, with or without hyphens
   */
  readonly referencePattern?: RegExp
}
