import { useState } from 'preact/hooks'
import { announce } from '../app/announce.js'
import { problemOf, type ShownProblem } from '../data/client.js'

interface Action {
  readonly isRunning: boolean
  readonly problem: ShownProblem | null
  /** Runs the action, and announces the sentence with which it resolves. */
  readonly run: (act: () => Promise<string>) => void
}

export function useAction(): Action {
  const [isRunning, setIsRunning] = useState(false)
  const [problem, setProblem] = useState<ShownProblem | null>(null)
  const run = async (act: () => Promise<string>) => {
    setIsRunning(true)
    setProblem(null)
    try {
      announce(await act())
    } catch (error) {
      setProblem(problemOf(error))
    } finally {
      setIsRunning(false)
    }
  }
  return { isRunning, problem, run: (act) => void run(act) }
}
