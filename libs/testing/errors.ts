import { AppError } from '../core/index.js'

/** Refused: time may be moved only in a database that was made for a test. */
export class NotATestDatabaseError extends AppError {
  constructor(name: string) {
    super('NOT_A_TEST_DATABASE', `the database ${name} was not made by symphony-pg/testing`, {
      remedy: 'Use the database of createTestDatabase or withTestDatabase.',
    })
  }
}

/** There was still work after so many rounds. */
export class DrainUnfinishedError extends AppError {
  constructor(rounds: number) {
    super('DRAIN_UNFINISHED', `after ${rounds} rounds there was still something to do`, {
      remedy: 'Look for an item that is enqueued again and again, or raise roundsMax.',
    })
  }
}
