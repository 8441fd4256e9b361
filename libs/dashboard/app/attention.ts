import { signal } from '@preact/signals'

/** What waits for a person, shown beside the page where it is dealt with. */
export interface Badge {
  readonly count: string
  readonly tone: 'bad' | 'held'
  /** Said after the number to those who listen. */
  readonly meaning: string
}

export const attention = signal<Readonly<Record<string, Badge>>>({})
