import type { Terminal } from './Terminal.js'

/** One line that is drawn over and over, for a person who is looking; nothing at all for a pipe or a log. */
export class ProgressBar {
  readonly #terminal: Terminal
  readonly #total: number

  constructor(terminal: Terminal, total: number) {
    this.#terminal = terminal
    this.#total = total
  }

  show(done: number, note = ''): void {
    const share = this.#total === 0 ? 1 : Math.min(1, done / this.#total)
    const filled = Math.round(share * WIDTH)
    const { cyan, dim } = this.#terminal.noteColors
    this.#terminal.redraw(
      `${cyan('█'.repeat(filled))}${dim('░'.repeat(WIDTH - filled))} ${done}/${this.#total} ${dim(note)}`,
    )
  }

  /** Takes the line away. */
  clear(): void {
    this.#terminal.redraw('')
  }
}

const WIDTH = 30
