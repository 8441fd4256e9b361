/** What a pool has lent at this moment. */
export interface PoolUse {
  /** Whose connections they are; `all` where one pool serves every role, through a pooler. */
  readonly role: string
  readonly inUse: number
  readonly idle: number
  /** Who waits for a connection. */
  readonly waiting: number
}
