interface KindChoicesProps<Kind extends string> {
  /** Question that the choices answer, for screen readers. */
  readonly legend: string
  readonly kinds: Readonly<Record<Kind, { readonly label: string; readonly hint: string }>>
  readonly chosen: Kind
  readonly onChoose: (kind: Kind) => void
}

/** Radio buttons of a form, each with a label and a hint. The form value `kind` is the chosen one. */
export function KindChoices<Kind extends string>({ legend, kinds, chosen, onChoose }: KindChoicesProps<Kind>) {
  const isKind = (value: string): value is Kind => value in kinds
  return (
    <fieldset class="choices">
      <legend class="unseen">{legend}</legend>
      {Object.keys(kinds)
        .filter(isKind)
        .map((kind) => (
          <label key={kind}>
            <input type="radio" name="kind" value={kind} checked={chosen === kind} onChange={() => onChoose(kind)} />
            <span>
              {kinds[kind].label}
              <span class="hint">{kinds[kind].hint}</span>
            </span>
          </label>
        ))}
    </fieldset>
  )
}
