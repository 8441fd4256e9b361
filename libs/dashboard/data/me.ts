import { signal } from '@preact/signals'
import type { Me, Scope } from '../../http/index.js'

/** Identity of the signed-in credential; null until the server has answered. */
export const me = signal<Me | null>(null)

/** Returns whether the signed-in credential has a scope; false until the server has answered. */
export function hasScope(scope: Scope): boolean {
  return me.value?.scopes.includes(scope) ?? false
}

/** Returns whether a recorded actor is the signed-in person. Compares names as the SQL function `person_key` does. */
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
 * Returns the participants that the credential is restricted to; null without a restriction, or until the server has
 * answered.
 */
export function boundTo(): readonly string[] | null {
  return me.value?.participants ?? null
}
