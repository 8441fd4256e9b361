/** Something the doctor has to say. */
export interface Finding {
  /**
   * `drift`: the database is not what was deployed. `damage`: the data breaks a promise. `mention`: worth knowing, and
   * somebody's decision. The first two make the examination fail.
   */
  readonly severity: 'drift' | 'damage' | 'mention'
  /** For machines: `INDEX_MISSING`. */
  readonly code: string
  /** `index payment_outbox_pending.ix_pending_claimable`. */
  readonly object: string
  readonly expected: string
  readonly found: string
  /** What the person who reads this can do about it. */
  readonly remedy: string
}
