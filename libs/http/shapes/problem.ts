import { Type } from 'typebox'
import { PROBLEMS } from '../Problem.js'
import { oneOf, shape } from './common.js'

/** The body of every answer that is not a success (RFC 9457). */
export const ProblemShape = shape(
  {
    type: Type.String({ pattern: '^urn:symphony:problem:[a-z-]+$' }),
    title: Type.String(),
    status: Type.Integer({ minimum: 400, maximum: 599 }),
    code: oneOf(Object.keys(PROBLEMS), 'what to branch on'),
    detail: Type.Optional(Type.String()),
    argument: Type.Optional(Type.String({ description: 'the argument that is wrong' })),
    instructionId: Type.Optional(
      Type.String({ description: 'of KEY_REUSED: the instruction that the key belongs to' }),
    ),
    requestId: Type.String(),
  },
  { description: 'what went wrong; it never quotes a payload' },
)
