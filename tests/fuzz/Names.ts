/**
 * Names such as item1 and token1 for ids, in the order in which the database first returned them. The model uses these
 * names.
 */
export class Names<Kind extends string> {
  readonly #names = new Map<string, string>()
  readonly #ids = new Map<string, string>()
  readonly #counts = new Map<Kind, number>()

  of(kind: Kind, uuid: string): string {
    const known = this.#names.get(uuid)
    if (known !== undefined) return known
    const number = (this.#counts.get(kind) ?? 0) + 1
    const name = `${kind}${number}`
    this.#counts.set(kind, number)
    this.#names.set(uuid, name)
    this.#ids.set(name, uuid)
    return name
  }

  known(uuid: string): string {
    return this.#names.get(uuid) ?? `unknown ${uuid}`
  }

  id(name: string): string {
    const uuid = this.#ids.get(name)
    if (uuid === undefined) throw new Error(`the database never returned ${name}`)
    return uuid
  }
}
