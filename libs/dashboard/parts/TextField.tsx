interface TextFieldProps {
  readonly name: string
  readonly label: string
  readonly hint?: string
  /** Initial value. @default empty */
  readonly preset?: string
  readonly pattern?: string
  readonly required?: boolean
  readonly maxLength?: number
  /** Whether the field is a date, such as 2026-01-31. @default false */
  readonly isDate?: boolean
}

/** An id of printable ASCII, with spaces around it, which `formText` removes. */
export const ID_PATTERN = '\\s*[!-~]{1,128}\\s*'

/** Field of a form for a name, a number or a date. */
export function TextField({
  name,
  label,
  hint,
  preset,
  pattern,
  required = false,
  maxLength = 128,
  isDate = false,
}: TextFieldProps) {
  return (
    <div class="field">
      <label for={`field-${name}`}>{label}</label>
      <input
        id={`field-${name}`}
        name={name}
        class="input mono"
        maxLength={maxLength}
        autocomplete="off"
        required={required}
        {...(isDate ? { type: 'date' as const } : {})}
        {...(pattern === undefined ? {} : { pattern, title: hint })}
        {...(preset === undefined ? {} : { defaultValue: preset })}
      />
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </div>
  )
}
