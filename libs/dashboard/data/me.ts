import { signal } from '@preact/signals'
import type { Me, Scope } from '../../http/index.js'

/** Identity of the signed-in token; null until the server has answered. */
export const me = signal<Me | null>(null)

/** Checks a scope of the signed-in token. Returns false until the server has answered. */
export function hasScope(scope: Scope): boolean {
  return me.value?.scopes.includes(scope) ?? false
}

/** True if a recorded actor is the signed-in person. Compares names as `person_key` in the schema does. */
export function isMe(actor: string): boolean {
  return me.value !== null && personKey(me.value.owner) === personKey(actor)
}

function personKey(name: string): string {
  return name
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '')
    .normalize('NFKC')
    .toUpperCase()
    .toLowerCase()
    .replaceAll(/\s+/g, ' ')
    .trim()
    .replace(/ via .*/, '')
}

/**
 * Returns the participants that this token is restricted to; null if it is not restricted, or before the server has
 * answered.
 */
export function boundTo(): readonly string[] | null {
  return me.value?.participants ?? null
}
