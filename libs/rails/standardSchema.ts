/**
 * The part of Standard Schema (version 1) that Symphony reads. zod, valibot, arktype and others implement it, so a rail
 * brings the validator its team already uses and Symphony depends on none.
 */
export interface StandardSchema<Input = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult | Promise<StandardResult>
    /** Never there at run time: it carries the type that the schema accepts. */
    readonly types?: { readonly input: Input; readonly output: unknown } | undefined
  }
}

export type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

export interface StandardIssue {
  /** Not used: validators quote the offending value here. */
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}
