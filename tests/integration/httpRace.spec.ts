import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, openHttpFixture } from '../support/httpFixture.js'

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))

const RACERS = 24

function instructionOf(participantId: string, amount: string) {
  return { instructionId: `instruction-${participantId}`, participantId, railType: 'sepa', payload: { amount } }
}

function statusCounts(responses: readonly Response[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

test('24 equal POST requests at once create one item: one gets 201, 23 get 200', async () => {
  const instruction = instructionOf(`participant-${randomUUID()}`, '1.00')
  const responses = await Promise.all(
    Array.from({ length: RACERS }, () => fixture.post(instruction, instruction.instructionId)),
  )
  expect(statusCounts(responses)).toEqual({ 201: 1, 200: RACERS - 1 })
  const bodies = await Promise.all(responses.map(bodyOf))
  expect(new Set(bodies.map(({ outboxId }) => outboxId)).size).toBe(1)
  expect(new Set(bodies.map(({ sequenceId }) => sequenceId))).toEqual(new Set(['1']))
})

test('24 instructions with one key at once create one item; 23 requests get 409 KEY_REUSED', async () => {
  const key = `key-${randomUUID()}`
  const participantId = `participant-${randomUUID()}`
  const ids = Array.from({ length: RACERS }, (_, index) => `instruction-${index}-${key}`)
  const responses = await Promise.all(
    ids.map((instructionId) => fixture.post({ ...instructionOf(participantId, '1.00'), instructionId }, key)),
  )
  expect(statusCounts(responses)).toEqual({ 201: 1, 409: RACERS - 1 })
  const winner = ids[responses.findIndex(({ status }) => status === 201)]
  for (const [index, response] of responses.entries()) {
    if (ids[index] === winner) continue
    expect(await bodyOf(response)).toMatchObject({ code: 'KEY_REUSED', instructionId: winner })
  }
  const { rows } = await db.queryNoRole(
    'SELECT instruction_id, sequence_id FROM payment_outbox_identities WHERE participant_id = $1',
    [participantId],
  )
  expect(rows).toEqual([{ instruction_id: winner, sequence_id: 1n }])
})

test('24 different payloads with one key at once create one item; 23 requests get 409', async () => {
  const participantId = `participant-${randomUUID()}`
  const responses = await Promise.all(
    Array.from({ length: RACERS }, (_, index) =>
      fixture.post(instructionOf(participantId, `${index}.00`), participantId),
    ),
  )
  expect(statusCounts(responses)).toEqual({ 201: 1, 409: RACERS - 1 })
  const { rows } = await db.queryNoRole('SELECT sequence_id FROM payment_outbox_identities WHERE participant_id = $1', [
    participantId,
  ])
  expect(rows).toEqual([{ sequence_id: 1n }])
})
