import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalHash, checkChain, firstBreak } from '../../libs/dashboard/data/chain.js'
import type { Chain, ChainLink } from '../../libs/http/index.js'
import { canonicalHash as ledgerHash } from '../../libs/ledger/chain.js'

const OUTBOX_ID = '019a2b3c-0000-7000-8000-000000000001'

function link(kind: 'attempt' | 'event', number: number, prevHash: string | null): ChainLink {
  const fields = [`${kind}-${number}`, OUTBOX_ID, 'instruction “é”', null, '', '{"amount": "1.00"}']
  return { number: String(number), fields, masked: false, prevHash, rowHash: ledgerHash([prevHash, ...fields]) }
}

function links(kind: 'attempt' | 'event', size: number, firstHash: string | null): ChainLink[] {
  const made: ChainLink[] = []
  for (let number = 1; number <= size; number += 1) made.push(link(kind, number, made.at(-1)?.rowHash ?? firstHash))
  return made
}

/** A sound chain: three attempts and two events. */
function soundChain(): Chain {
  const fields = [OUTBOX_ID, 'instruction', 'key', 'acme', '1', 'simulated', 'false', null, 'ab', '1']
  const rowHash = ledgerHash(fields)
  return {
    outboxId: OUTBOX_ID,
    identity: { fields, rowHash },
    attempts: links('attempt', 3, rowHash),
    events: links('event', 2, null),
  }
}

describe('the hash that the browser computes', () => {
  test('is the one the documented format gives for a known text', async () => {
    const expected = createHash('sha256').update('3:a,b,:,0:,2:é,').digest('hex')
    expect(await canonicalHash(['a,b', null, '', 'é'])).toBe(expected)
  })

  test('is the ledger’s own for any fields', async () => {
    const fields = fc.array(fc.option(fc.string({ unit: 'binary', maxLength: 40 })), { maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(fields, async (given) => {
        expect(await canonicalHash(given)).toBe(ledgerHash(given))
      }),
    )
  })
})

describe('a chain', () => {
  test('that nobody touched is sound at every link', async () => {
    const checked = await checkChain(soundChain())
    expect(firstBreak(checked)).toBeUndefined()
    expect(checked.ledger.map(({ position }) => position)).toEqual(['identity', 'attempt 1', 'attempt 2', 'attempt 3'])
    expect(checked.events.map(({ position }) => position)).toEqual(['event 1', 'event 2'])
  })

  test('with a masked row is sound as far as it can be seen, and says which row it could not see', async () => {
    const chain = soundChain()
    Object.assign(chain.attempts[1]!, { masked: true, fields: [...chain.attempts[1]!.fields.slice(0, -1), '••••'] })
    const checked = await checkChain(chain)
    expect(firstBreak(checked)).toBeUndefined()
    expect(checked.ledger.map(({ isMasked }) => isMasked)).toEqual([false, false, true, false])
    // It must still follow the one before, and be followed.
    Object.assign(chain.attempts[1]!, { prevHash: chain.attempts[0]!.prevHash })
    expect(firstBreak(await checkChain(chain))).toMatchObject({ defect: 'it does not follow the one before' })
  })

  test.each<[string, (chain: Chain) => void, string, string]>([
    [
      'a changed identity',
      (chain) => (chain.identity.fields[3] = 'mallory'),
      'identity',
      'its content differs from its hash',
    ],
    ['an identity of another payment', (chain) => (chain.outboxId = 'x'), 'identity', 'it is about another payment'],
    [
      'a changed field of an attempt',
      (chain) => (chain.attempts[1]!.fields[5] = '{"amount": "9.00"}'),
      'attempt 2',
      'its content differs from its hash',
    ],
    [
      'a null that became an empty text',
      (chain) => (chain.attempts[0]!.fields[3] = ''),
      'attempt 1',
      'its content differs from its hash',
    ],
    ['an attempt without a hash', (chain) => (chain.attempts[2]!.rowHash = null), 'attempt 3', 'it has no hash'],
    ['a removed attempt', (chain) => chain.attempts.splice(1, 1), 'attempt 3', 'a number is missing before it'],
    [
      'two attempts that changed places',
      (chain) => (chain.attempts = chain.attempts.toReversed()),
      'attempt 3',
      'a number is missing before it',
    ],
    [
      'an attempt written anew, hash and all',
      (chain) => (chain.attempts[1] = link('attempt', 2, 'ff')),
      'attempt 2',
      'it does not follow the one before',
    ],
    [
      'an attempt of another payment',
      (chain) => (chain.attempts[1]!.fields[1] = 'x'),
      'attempt 2',
      'it is about another payment',
    ],
    ['a changed event', (chain) => (chain.events[1]!.fields[0] = 'x'), 'event 2', 'its content differs from its hash'],
    [
      'a first event that follows something',
      (chain) => (chain.events[0] = link('event', 1, 'ff')),
      'event 1',
      'it does not follow the one before',
    ],
  ])('with %s names the first broken link and why', async (_what, tamper, position, defect) => {
    const chain = soundChain()
    tamper(chain)
    expect(firstBreak(await checkChain(chain))).toMatchObject({ position, defect })
  })
})
