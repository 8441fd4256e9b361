/** Formats of a bank's statement that Symphony reads. */
export const STATEMENT_FORMATS = ['camt053', 'camt054', 'csv', 'ndjson'] as const
export type StatementFormat = (typeof STATEMENT_FORMATS)[number]

/** One entry of a statement. A batch booking has one entry per transaction. */
export interface StatementEntry {
  /** IBAN or other id of the statement's account. */
  readonly account: string | null
  /** Bank's own reference. Together with the account it identifies the entry. */
  readonly bankReference: string | null
  /** Reference of the payment as shown by the bank, at most 200 characters; null if the entry has none. */
  readonly reference: string | null
  /** Outbox ids in the reference fields, without repeats, the most reliable field first. */
  readonly candidates: readonly string[]
  /** Decimal text such as `1234.50`; null if the statement gives only the sum of a batch. */
  readonly amount: string | null
  readonly currency: string | null
  readonly direction: 'debit' | 'credit'
  readonly status: 'booked' | 'pending' | 'information'
  /** Whether the entry reverses an earlier entry of the other direction. */
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
  /** Start of the period of all statements, inclusive; null if the file states none and has no dated entry. */
  readonly from: Date | null
  /** End of the period, exclusive. A period known only by dates ends with its last day in UTC. */
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
   * Without this column every entry is a debit, and amounts of different signs are refused.
   */
  readonly direction?: string
  /** Column with `booked`, `pending` or `information`. @default booked */
  readonly status?: string
  /** Column with the account. @default the option `account` */
  readonly account?: string
  readonly bankReference?: string
  /** Column with `true` for a reversal, otherwise `false`. Without this column no entry is a reversal. */
  readonly reversal?: string
}

export interface ReadStatementOptions {
  readonly format: StatementFormat
  /**
   * Account to read; statements of other accounts are skipped. A CSV or NDJSON entry without an account belongs to it.
   */
  readonly account?: string
  /** Columns of a CSV file, by the names in the first line. */
  readonly columns?: StatementColumns
  /** Decimal mark of a CSV file. @default '.' */
  readonly decimal?: '.' | ','
  /** Date format of a CSV file, such as `DD.MM.YYYY`. @default 'YYYY-MM-DD' */
  readonly dateFormat?: string
  /**
   * Pattern that finds an outbox id in free text. The first group, else the whole match, must be an outbox id.
   * @default any outbox id, with or without hyphens
   */
  readonly referencePattern?: RegExp
}
