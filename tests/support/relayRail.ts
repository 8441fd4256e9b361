import {
  loadRails,
  type LoadedRail,
  type RailDeclaration,
  type RailAnswer,
  type RailRequest,
} from '../../libs/rails/index.js'

/** A rail in the test process that records every call. */
export interface RecordingRail {
  readonly calls: RailRequest[]
  readonly inquiries: RailRequest[]
  readonly rails: ReadonlyMap<string, LoadedRail>
  /** Calls in progress, and their maximum. */
  readonly gauge: { now: number; most: number }
}

export function recordingRail(
  declared: Partial<RailDeclaration> & { readonly type: string },
  answer: (request: RailRequest, signal: AbortSignal) => RailAnswer | Promise<RailAnswer> = (request) => ({
    outcome: 'success',
    reference: `paid-${request.reference}`,
  }),
): RecordingRail {
  const calls: RailRequest[] = []
  const inquiries: RailRequest[] = []
  const gauge = { now: 0, most: 0 }
  const { queryStatus, ...rest } = declared
  const rail: RailDeclaration = {
    onUnknown: 'resend',
    money: false,
    ...rest,
    dispatch: async (request, { signal }) => {
      calls.push(request)
      gauge.now += 1
      gauge.most = Math.max(gauge.most, gauge.now)
      try {
        return await answer(request, signal)
      } finally {
        gauge.now -= 1
      }
    },
    ...(queryStatus === undefined
      ? {}
      : {
          queryStatus: (request, context) => {
            inquiries.push(request)
            return queryStatus(request, context)
          },
        }),
  }
  return { calls, inquiries, gauge, rails: loadRails([rail]) }
}
