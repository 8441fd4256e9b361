// Shared by the web process and the worker: the name of a rail and the schema of its payloads.
import { z } from 'zod'

const Sepa = z.object({ amount: z.string(), currency: z.literal('EUR'), destination: z.string(), invoice: z.string() })
export const sepa = { type: 'SEPA', payload: Sepa, destination: 'iban' } as const
