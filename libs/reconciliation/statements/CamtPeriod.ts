import { DAY_MS } from './values.js'

const MINUTE_MS = 60_000

/** Types of booked balances. The others, such as the forward balance (FWAV), may have a date after the period. */
const BOOKED_BALANCES: ReadonlySet<string> = new Set(['OPBD', 'ITBD', 'CLBD'])

/**
 * Period of one statement: the stated one (`FrToDt`), else the dates of its booked balances, else the dates of its
 * booked entries. Times are milliseconds; the end is exclusive.
 */
export class CamtPeriod {
  #from: number | undefined
  #to: number | undefined
  #balanceType = ''
  #balanceDay: number | undefined
  #opening: number | undefined
  #firstBalance: number | undefined
  #lastBalance: number | undefined
  #firstBooking = ''
  #lastBooking = ''

  setFrom(instant: number): void {
    this.#from = instant
  }

  setTo(instant: number): void {
    this.#to = instant
  }

  setBalanceType(code: string): void {
    this.#balanceType = code
  }

  setBalanceDate(date: string): void {
    this.#balanceDay = Date.parse(date)
  }

  closeBalance(): void {
    const day = this.#balanceDay
    if (day !== undefined) {
      if (this.#balanceType === 'OPBD') this.#opening = day
      // The previous closing balance (PRCD) has the date of the last day before this statement.
      if (this.#balanceType === 'PRCD') this.#opening ??= day + DAY_MS
      else if (BOOKED_BALANCES.has(this.#balanceType)) {
        this.#firstBalance = Math.min(this.#firstBalance ?? day, day)
        this.#lastBalance = Math.max(this.#lastBalance ?? day, day)
      }
    }
    this.#balanceType = ''
    this.#balanceDay = undefined
  }

  addBooking(date: string): void {
    // Compares text, because parsing a date would take longer than reading its element.
    if (this.#firstBooking === '' || date < this.#firstBooking) this.#firstBooking = date
    if (date > this.#lastBooking) this.#lastBooking = date
  }

  resolve(): { readonly from: number; readonly to: number } | undefined {
    if (this.#from !== undefined && this.#to !== undefined) return { from: this.#from, to: endOf(this.#from, this.#to) }
    const hasBalances = this.#lastBalance !== undefined
    const first = hasBalances ? this.#firstBalance : parseDay(this.#firstBooking)
    const last = hasBalances ? this.#lastBalance : parseDay(this.#lastBooking)
    if (first === undefined || last === undefined) return undefined
    return { from: Math.min(this.#opening ?? first, last), to: last + DAY_MS }
  }
}

/**
 * Returns the exclusive end. Many banks write 23:59:59 for the end of a day. Some write a whole day as 00:00 to 00:00
 * of the same day.
 */
function endOf(from: number, to: number): number {
  const end = to % MINUTE_MS >= 59_000 ? Math.ceil(to / MINUTE_MS) * MINUTE_MS : to
  return end > from ? end : Math.floor(end / DAY_MS) * DAY_MS + DAY_MS
}

function parseDay(date: string): number | undefined {
  return date === '' ? undefined : Date.parse(date)
}
