/** What became of a payment, as both books and the rails' adapters tell it. */
export interface Story {
  /** `DISPATCHED by first`; inquiries that came too early to be believed are left out. */
  readonly attempts: readonly string[]
  /** The workers that called the rail, once for each call. */
  readonly calls: readonly string[]
  /** How often the rail moved the money. */
  readonly paid: number
  /** Why it is held, and whether its outcome counts as unknown; undefined when it has ended. */
  readonly pending: { readonly hold_reason: string | null; readonly outcome_unknown: boolean } | undefined
}

/** The first worker carried it and all was well, whatever happened around it. */
export const CARRIED: Story = { attempts: ['DISPATCHED by first'], calls: ['first'], paid: 1, pending: undefined }

/** The first worker lost it, the second sent it again: under the same reference, where that had been paid already. */
export const SENT_AGAIN: Story = {
  attempts: ['ZOMBIE_REQUEUE by first', 'DISPATCHED by second'],
  calls: ['first', 'second'],
  paid: 1,
  pending: undefined,
}

/** The first worker lost it before it had called the rail. */
export const SENT_BY_SECOND: Story = { ...SENT_AGAIN, calls: ['second'] }

/** The first worker lost it after the rail had paid; the second was told so by the rail and sent nothing. */
export const FOUND_BY_ASKING: Story = { ...SENT_AGAIN, calls: ['first'] }

/** The first worker lost it, nobody can say what the rail did, and nobody but a person may go on. */
export const HELD: Story = {
  attempts: ['ZOMBIE_REQUEUE by first'],
  calls: ['first'],
  paid: 1,
  pending: { hold_reason: 'OUTCOME_UNKNOWN', outcome_unknown: true },
}
