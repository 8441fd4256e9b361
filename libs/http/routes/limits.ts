import { Type, type Static } from '#typebox'
import {
  approveOutboxLimit,
  isLimitProposal,
  proposeOutboxLimit,
  readLimits,
  withdrawOutboxLimit,
  type LimitRule,
} from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { ProblemError } from '../Problem.js'
import { Id, nullable, oneOf, shape, Timestamp, Uuid } from '../shapes/common.js'
import { ReasonBody, Withdrawn } from '../shapes/decisions.js'
import { EXAMPLE } from './examples.js'
import { proposalIdParam } from './parameters.js'
import { route, type Route } from './route.js'

const Kind = oneOf(
  ['approval', 'amount', 'count'],
  'approval: holds a payment above the limit; amount, count: hold payments beyond the sum or number of a window',
)
const Decimal = Type.String({
  pattern: '^(?:0|[1-9][0-9]{0,17})(?:[.][0-9]{1,4})?$',
  description: 'a decimal amount, or for count a number of payments',
})
const WindowSeconds = Type.Integer({ minimum: 60, maximum: 2_678_400 })
const Approvals = Type.Integer({ minimum: 1, maximum: 2, description: 'people who release a payment above the limit' })

const RuleBody = shape({
  kind: Kind,
  railType: Type.Optional(Id),
  participantId: Type.Optional(Id),
  currency: Type.Optional(Type.String({ pattern: '^[A-Z]{3}$', description: 'an ISO 4217 code; none for count' })),
  limit: Decimal,
  windowSeconds: Type.Optional(WindowSeconds),
  approvals: Type.Optional(Approvals),
})

/** Body that proposes a limit. */
export const LimitBody = shape({ name: Id, rule: RuleBody, reason: ReasonBody.properties.reason })
export type LimitBody = Static<typeof LimitBody>

const ruleFields = {
  kind: Kind,
  railType: nullable(Id),
  participantId: nullable(Id),
  currency: nullable(Type.String()),
  limit: Type.String(),
  windowSeconds: nullable(Type.Integer()),
  approvals: nullable(Type.Integer()),
}

/** Limit in force. */
export const Limit = shape({
  name: Id,
  ...ruleFields,
  setBy: Type.String(),
  setAt: Timestamp,
  used: nullable(Type.String({ description: 'sum or number in the current window; null for approval' })),
  exceededAt: nullable(Timestamp),
})
export type Limit = Static<typeof Limit>

/** Open proposal to set a limit, or to remove it (`rule` is null). */
export const LimitProposal = shape({
  proposalId: Uuid,
  name: Id,
  rule: nullable(shape(ruleFields)),
  reason: Type.String(),
  proposedBy: Type.String(),
  proposedAt: Timestamp,
})
export type LimitProposal = Static<typeof LimitProposal>

export const Limits = shape({ limits: Type.Array(Limit), proposals: Type.Array(LimitProposal) })
export type Limits = Static<typeof Limits>

export const LimitProposed = shape({ proposalId: Uuid })
export type LimitProposed = Static<typeof LimitProposed>

export const LimitApproved = shape({ proposalId: Uuid, name: Id })
export type LimitApproved = Static<typeof LimitApproved>

const RULE = {
  kind: 'amount',
  participantId: 'globex',
  currency: 'EUR',
  limit: '250000.00',
  windowSeconds: 86_400,
} as const
const RULE_VIEW = { ...RULE, railType: null, approvals: null }
const REASON = { reason: 'agreed with risk, RISK-17' }

/** Routes for limits, the rules that hold unusual payments at enqueue. Two people set or remove a limit. */
export function limitRoutes({ roles }: Api): readonly Route[] {
  const common = { tag: 'limits', participants: 'refused' } as const
  const decision = { ...common, method: 'POST', access: 'operate' } as const
  const requireProposal = async (proposalId: string) => {
    if (!(await isLimitProposal(roles.readonly, proposalId))) throw new ProblemError('PROPOSAL_NOT_FOUND')
  }
  return [
    route({
      ...common,
      method: 'GET',
      path: '/v1/limits',
      summary: 'Limits in force by name, with the usage of their windows, and open proposals.',
      access: 'read',
      answers: { 200: { description: 'Limits and proposals.', schema: Limits } },
      problems: [],
      example: {
        status: 200,
        answer: {
          limits: [
            {
              name: EXAMPLE.limitName,
              ...RULE_VIEW,
              setBy: 'bob',
              setAt: EXAMPLE.at,
              used: '1200.50',
              exceededAt: null,
            },
          ],
          proposals: [
            {
              proposalId: EXAMPLE.approvableLimitId,
              name: 'globex-hourly',
              rule: RULE_VIEW,
              ...REASON,
              proposedBy: 'alice',
              proposedAt: EXAMPLE.at,
            },
          ],
        },
      },
      handle: () => readLimits(roles.readonly),
    }),
    route({
      ...decision,
      path: '/v1/limits',
      summary: 'Proposes to set a limit, or to change the limit of this name. Another person must approve it.',
      body: LimitBody,
      answers: { 200: { description: 'The limit is proposed.', schema: LimitProposed } },
      problems: ['DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        body: { name: 'initech-daily', rule: { ...RULE, participantId: 'initech' }, ...REASON },
        status: 200,
        answer: { proposalId: EXAMPLE.proposalId },
      },
      handle: async ({ identity, body: { name, rule, reason } }) => ({
        proposalId: await proposeOutboxLimit(roles.control(identity), name, rule satisfies LimitRule, reason),
      }),
    }),
    route({
      ...decision,
      path: '/v1/limits/{name}/remove',
      summary: 'Proposes to remove a limit. Another person must approve it.',
      params: { name: Id },
      body: ReasonBody,
      answers: { 200: { description: 'The removal is proposed.', schema: LimitProposed } },
      problems: ['DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { name: EXAMPLE.limitName },
        body: REASON,
        status: 200,
        answer: { proposalId: EXAMPLE.proposalId },
      },
      handle: async ({ identity, params: { name }, body: { reason } }) => ({
        proposalId: await proposeOutboxLimit(roles.control(identity), name, null, reason),
      }),
    }),
    route({
      ...decision,
      path: '/v1/limits/proposals/{proposalId}/approve',
      summary: 'Approves and applies the proposal of a limit. Its proposer cannot approve it.',
      params: proposalIdParam,
      answers: { 200: { description: 'The limit is set or removed.', schema: LimitApproved } },
      problems: ['PROPOSAL_NOT_FOUND', 'SECOND_PERSON_REQUIRED', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { proposalId: EXAMPLE.approvableLimitId },
        status: 200,
        answer: { proposalId: EXAMPLE.approvableLimitId, name: 'globex-hourly' },
      },
      handle: async ({ identity, params: { proposalId } }) => {
        await requireProposal(proposalId)
        return { proposalId, name: await approveOutboxLimit(roles.control(identity), proposalId) }
      },
    }),
    route({
      ...decision,
      path: '/v1/limits/proposals/{proposalId}/withdraw',
      summary: 'Withdraws the proposal of a limit, of any person. The limit stays as it is.',
      params: proposalIdParam,
      body: ReasonBody,
      answers: { 200: { description: 'The proposal is withdrawn.', schema: Withdrawn } },
      problems: ['PROPOSAL_NOT_FOUND', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { proposalId: EXAMPLE.withdrawableLimitId },
        body: REASON,
        status: 200,
        answer: { proposalId: EXAMPLE.withdrawableLimitId },
      },
      handle: async ({ identity, params: { proposalId }, body: { reason } }) => {
        await requireProposal(proposalId)
        await withdrawOutboxLimit(roles.control(identity), proposalId, reason)
        return { proposalId }
      },
    }),
  ]
}
