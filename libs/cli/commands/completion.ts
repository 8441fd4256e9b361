import { Argument, type Command } from 'commander'
import type { Cli } from '../Cli.js'
import { bashCompletion } from '../completion/bash.js'
import { fishCompletion } from '../completion/fish.js'
import { zshCompletion } from '../completion/zsh.js'
import { addExamples } from '../examples.js'
import { surfaceOf, type CommandSurface } from '../surface.js'

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const

/** `symphony completion`: a script with which a shell completes every other command. */
export function registerCompletion(program: Command, cli: Cli): void {
  const command = program
    .command('completion')
    .description('a script that lets your shell complete commands and options')
    .addArgument(new Argument('<shell>').choices(Object.keys(SHELLS)))
    .action((shell: keyof typeof SHELLS) => {
      const script: (surface: CommandSurface) => string = SHELLS[shell]
      cli.terminal.printRaw(script(surfaceOf(program)))
    })
  addExamples(
    command,
    'source <(symphony completion bash)',
    'symphony completion zsh > "${fpath[1]}/_symphony"',
    'symphony completion fish > ~/.config/fish/completions/symphony.fish',
  )
}
