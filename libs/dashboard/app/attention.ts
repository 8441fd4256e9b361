import { signal } from '@preact/signals'

/** What waits for a person, shown beside the page where it is dealt with. */
export interface Badge {
  readonly count: string
  readonly tone: 'bad' | 'held'
}

export const attention = signal<Readonly<Record<string, Badge>>>({})
